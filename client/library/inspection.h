// The views of an Inspect call by name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/library/host_tensor.h"
#include "proto/codec/inspect_codec.h"

namespace attn {

// "logits", "masked_logits", "weights", "contribution", "gradient_weight".
std::vector<std::string> ViewNames();

// Makes `views` ask for the named view. INVALID_ARGUMENT lists the names.
absl::Status WantView(const std::string& name, InspectViews& views);

// A copy of what was returned of the view: the window, or its pooled tiles.
// NOT_FOUND if the result does not have it.
absl::StatusOr<HostTensor> ViewOf(const InspectResult& result,
                                  const std::string& name);

}  // namespace attn
