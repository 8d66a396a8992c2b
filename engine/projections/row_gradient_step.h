// From the gradient of a layer's results to that of the rows it was applied to.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/core/problem.h"
#include "engine/projections/step.h"

namespace attn {

struct RowGradientOptions {
  // The gradient dY of the layer's results, [B, 1, S, out].
  RowSource gradient;
  // inputs[weight] is W [out, in].
  uint32_t weight = 0;
  // dX = dY W, [B, 1, S, in]: in scratch, or the call's gradient of q, k or v.
  RowSource target;
};

// In f32 by oneDNN, or in double by plain loops in a double call; cut by the
// shape alone, within one batch entry.
std::unique_ptr<const ProjectionStep> MakeRowGradientStep(
    const Problem& problem, const RowGradientOptions& options);

}  // namespace attn
