// The vector-Jacobian product of everything that has rows of scores, exact and
// in double.
#pragma once

#include "absl/status/status.h"
#include "engine/kernels/kernel.h"

namespace attn {

// Of a backward problem: INVALID_ARGUMENT names the stage that has no gradient
// and says why, or the cotangent of what the spec does not have. A forward
// problem passes.
absl::Status ValidateGradients(const Problem& problem);

const Kernel& BackwardKernel();

}  // namespace attn
