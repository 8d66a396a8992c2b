// A call whose q, k and v are made of token rows, or whose heads' outputs are
// joined: steps before and after the execution of the heads.
#pragma once

#include <memory>

#include "engine/core/problem.h"
#include "engine/kernels/kernel.h"

namespace attn {

// Whether a problem needs one.
bool NeedsProjection(const Problem& problem);

// `heads` executes HeadProblem(problem) (head_inputs.h).
std::unique_ptr<const Execution> MakeProjectedExecution(
    const Problem& problem, std::unique_ptr<const Execution> heads);

}  // namespace attn
