// Gradients of what the client computes itself: layers around attention.
#pragma once

#include "absl/status/statusor.h"
#include "client/library/host_tensor.h"

namespace attn {

// Gradients of Project(x, weight, bias); F64.
struct ProjectionGradients {
  HostTensor x;       // [..., n]
  HostTensor weight;  // [m, n]
  HostTensor bias;    // [m]
};

// x [..., n], weight [m, n], d_result [..., m]. INVALID_ARGUMENT if they do not
// fit.
absl::StatusOr<ProjectionGradients> ProjectBackward(const HostTensor& x,
                                                    const HostTensor& weight,
                                                    const HostTensor& d_result);

// a + b, of one shape; F64.
HostTensor Sum(const HostTensor& a, const HostTensor& b);

}  // namespace attn
