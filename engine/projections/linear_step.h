// Rows through a linear layer: x W^T + bias.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/core/problem.h"
#include "engine/core/projection_spec.h"
#include "engine/projections/step.h"

namespace attn {

// RMS norm of a row before the layer: x / sqrt(mean(x^2) + eps) * weight
// (Zhang and Sennrich 2019).
struct RowNorm {
  uint32_t weight = 0;
  double eps = 1e-6;
};

struct LinearStepOptions {
  RowSource source;
  std::optional<RowNorm> norm;
  // Where the rows that the layer is applied to are kept, if there is a norm.
  std::optional<RowSource> normed;
  LinearLayer layer;
  // Where the rows go, [B, 1, S, out]; absent: to the call's output, where rows
  // beyond q_lengths become 0.
  std::optional<RowSource> target;
};

// In f32 by oneDNN, or in double by plain loops in a double call. Cut by the
// shape alone, within one batch entry: no bit depends on company.
std::unique_ptr<const ProjectionStep> MakeLinearStep(
    const Problem& problem, const LinearStepOptions& options);

}  // namespace attn
