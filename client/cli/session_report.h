// What `attn session` says of sessions and steps.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/io/tensor_file.h"
#include "nlohmann/json.hpp"
#include "proto/codec/session_codec.h"

namespace attn {

// Everything that is known of one, as a table.
std::string DescribeSession(const v1::SessionInfo& session);

// One line for each.
std::string DescribeSessions(const std::vector<v1::SessionInfo>& sessions);

// What came for one of the layers of a step.
struct LayerOutput {
  int layer = 0;
  HostTensor output;
};

// Copies, in the order of the layers of `message`. INTERNAL if there are not as
// many.
absl::StatusOr<std::vector<LayerOutput>> OutputsOf(const StepMessage& message,
                                                   const StepResult& result);

// "output", or "output.N" of layer N where there are several.
std::string StepTensorName(const std::string& name, int layer, bool several);

std::string DescribeStep(const std::string& session_id,
                         const v1::StepResponse& header,
                         const std::vector<LayerOutput>& outputs);

// The same as one JSON document.
nlohmann::json StepToJson(const std::string& session_id,
                          const v1::StepResponse& header,
                          const std::vector<LayerOutput>& outputs);

}  // namespace attn
