// The way back of the RMS norm before a layer.
#pragma once

#include <memory>

#include "engine/core/problem.h"
#include "engine/projections/linear_step.h"
#include "engine/projections/step.h"

namespace attn {

// For y = x / s * gain with s = sqrt(mean(x^2) + eps), all [B, 1, S, width].
struct NormGradientOptions {
  RowSource rows;
  RowNorm norm;
  // dy; afterwards dy x / s, whose sum over the rows is the gain's gradient.
  RowSource gradient;
  // dx = (gain dy - x mean(gain dy x) / s^2) / s, written.
  RowSource target;
};

// A row whose gradient is 0 is not read.
std::unique_ptr<const ProjectionStep> MakeNormGradientStep(
    const Problem& problem, const NormGradientOptions& options);

}  // namespace attn
