// The layer after attention that some cases end with.
#pragma once

#include "absl/status/statusor.h"
#include "client/cli/check/case.h"
#include "client/library/host_tensor.h"

namespace attn {

// f([context, q] W^T + b) of OpenNMT's global attention, by the client and in
// double: f is tanh for products, identity for additive scores. `context` is
// [B, 1, S, D].
absl::StatusOr<HostTensor> ApplyOutputLayer(const Case& tested,
                                            const HostTensor& context);

}  // namespace attn
