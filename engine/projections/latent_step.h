// Heads of latent attention: turns what has a position, and joins it to what
// has none.
#pragma once

#include <memory>

#include "engine/core/problem.h"
#include "engine/projections/step.h"
#include "engine/transforms/transform.h"

namespace attn {

// All in scratch, in the type that is computed in.
struct LatentStepOptions {
  // [B, 1, Sq, Hq * (plain + turning)]: turned in place.
  RowSource queries;
  // [B, 1, Sk, latent + turning]: its last elements turn.
  RowSource compressed;
  // [B, 1, Sk, Hq * (plain + d_v)]: of each head the key, then the value.
  RowSource expanded;
  // [B, 1, Sk, Hq * (plain + turning)], written.
  RowSource keys;
};

// What turns the part of a head that has a position: rows of rotary_dim.
std::unique_ptr<const Transform> MakeLatentRotary(const Problem& problem);

// For a problem with spec.projections.latent (DeepSeek-AI 2024, section 2.1).
std::unique_ptr<const ProjectionStep> MakeLatentStep(
    const Problem& problem, const LatentStepOptions& options);

}  // namespace attn
