// The layer after attention that some cases end with: f([context, q] W^T + b)
// of OpenNMT's global attention, by the client and in double. f is tanh for
// products, identity for additive scores. `context` is [B, 1, S, D].
#pragma once

#include "absl/status/statusor.h"
#include "client/cli/check/case.h"
#include "client/library/host_tensor.h"

namespace attn {

absl::StatusOr<HostTensor> ApplyOutputLayer(const Case& tested,
                                            const HostTensor& context);

struct OutputLayerGradients {
  HostTensor context;  // As `context`.
  HostTensor q;        // [B, S, D], of the layer's own use of q.
  HostTensor weight;
  HostTensor bias;
};

// For the case's cotangent of its output.
absl::StatusOr<OutputLayerGradients> OutputLayerBackward(
    const Case& tested, const HostTensor& context);

}  // namespace attn
