// The way back of a call with spec.projections: steps before and after the
// execution that goes back over the heads.
#pragma once

#include <memory>

#include "engine/core/problem.h"
#include "engine/kernels/kernel.h"

namespace attn {

// The gradients that the heads must give so that the layers can give theirs:
// HeadProblem() with those of the rows that layers made, and without those of
// inputs that only layers name.
Problem BackwardHeadProblem(const Problem& problem);

// Whether the gradient of the output layer is wanted, for which the heads'
// outputs are formed again: by an execution of ForwardHeadProblem().
bool NeedsHeadOutputs(const Problem& problem);
Problem ForwardHeadProblem(const Problem& problem);

// `forward` may be null if it is not needed.
std::unique_ptr<const Execution> MakeProjectedBackward(
    const Problem& problem, std::unique_ptr<const Execution> forward,
    std::unique_ptr<const Execution> backward);

}  // namespace attn
