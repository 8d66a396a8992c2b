// What the service's transforms make of q or k.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/check/service.h"
#include "client/library/host_tensor.h"

namespace attn {

// Sends `rows` [B, H, S, D] as q (or as k, by `side`) against the identity: the
// logits are then the transformed rows. The transforms point into `inputs`.
absl::StatusOr<HostTensor> TransformedRows(
    const HostTensor& rows, TransformTarget side,
    const std::vector<TransformSpec>& transforms,
    const std::vector<HostTensor>& inputs, const Service& service);

}  // namespace attn
