// The way back of latent_step.h: what heads of latent attention were made of.
#pragma once

#include <memory>

#include "engine/core/problem.h"
#include "engine/projections/step.h"

namespace attn {

// Gradients, all in scratch, of the rows of LatentStepOptions.
struct LatentGradientOptions {
  // Of the turned queries; turned back in place.
  RowSource queries;
  // Of the joined keys.
  RowSource keys;
  // Of each head, the key's part is written; the value's is there.
  RowSource expanded;
  // The turning part is written: the sum over the heads, turned back.
  RowSource compressed;
};

std::unique_ptr<const ProjectionStep> MakeLatentGradientStep(
    const Problem& problem, const LatentGradientOptions& options);

}  // namespace attn
