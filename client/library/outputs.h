// The outputs of a call by name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/library/host_tensor.h"
#include "proto/codec/attend_codec.h"

namespace attn {

// "output", "lse", "logits", "masked_logits", "weights", "lse_with_sink",
// "dropout_keep", "state", "head_output"; and the row statistics "entropy",
// "peak_weight", "top_key", "visible_keys", "entropy_ratio", "effective_keys",
// "logit_min", "logit_max", "logit_mean", "logit_std", "contribution".
std::vector<std::string> OutputNames();

// Makes `wanted` ask for the named output. Also takes "row_statistics" and
// "head_statistics". INVALID_ARGUMENT lists the names.
absl::Status Want(const std::string& name, WantedOutputs& wanted);

// A copy. NOT_FOUND if the result does not have
// the tensor.
absl::StatusOr<HostTensor> OutputOf(const AttendResult& result,
                                    const std::string& name);

}  // namespace attn
