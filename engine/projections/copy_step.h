// Rows by head from one place and type to another.
#pragma once

#include <memory>

#include "engine/core/problem.h"
#include "engine/projections/step.h"

namespace attn {

// Widens a tensor of the call that comes by head, [B, H, S, D], into scratch.
std::unique_ptr<const ProjectionStep> MakeWidenStep(const Problem& problem,
                                                    const RowSource& source,
                                                    const RowSource& target);

// The heads' outputs, [B, Hq, Sq, d_v] in scratch, to the call's head_output,
// and to its output too if there is no output projection.
std::unique_ptr<const ProjectionStep> MakeHeadOutputStep(
    const Problem& problem, const RowSource& heads);

}  // namespace attn
