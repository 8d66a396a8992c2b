// What `attn inspect` says about a result.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/heat_map.h"
#include "nlohmann/json.hpp"
#include "proto/codec/inspect_codec.h"

namespace attn {

// Which plane of the views to draw, and how its rows and columns are named.
struct InspectDrawing {
  std::vector<std::string> names;
  // Absolute, within the window.
  int64_t batch = 0;
  int64_t head = 0;
  // Names of the keys; may be empty. `query_offset` is the key position of
  // query 0.
  std::vector<std::string> tokens;
  int64_t query_offset = 0;
};

// The named views side by side: what was asked by `question`. INVALID_ARGUMENT
// for a plane that is not in the window.
absl::StatusOr<std::string> DrawViews(const InspectResult& result,
                                      const InspectQuestion& question,
                                      const InspectDrawing& drawing,
                                      const HeatMapOptions& options);

// One line for each temperature, of means over the heads; "" without a sweep.
std::string DescribeSweep(const v1::InspectResponse& header);

// Everything but the large tensors, which are summarised.
nlohmann::json InspectToJson(const InspectResult& result);

}  // namespace attn
