// The gradients of a backward call by name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/library/host_tensor.h"
#include "proto/codec/backward_codec.h"

namespace attn {

// Those that the result has, of "d_q", "d_k", "d_v", "d_input_3" for the call's
// input 3, and "d_mine/weight" for the tensor "weight" of the layer "mine".
std::vector<std::string> GradientNames(const BackwardResult& result);

// A copy, of the shape that its tensor had on the wire. NOT_FOUND if the result
// does not have it.
absl::StatusOr<HostTensor> GradientOf(const BackwardResult& result,
                                      const std::string& name);

}  // namespace attn
