// How the heads get their q, k and v.
#pragma once

#include <optional>
#include <vector>

#include "engine/core/problem.h"
#include "engine/projections/scratch_layout.h"
#include "engine/projections/step.h"
#include "engine/projections/step_group.h"

namespace attn {

// What latent attention makes of its token rows on the way, by the names of
// LatentStepOptions. The normed rows are kept where they are asked for.
struct LatentRows {
  // The compressed queries; absent without query_down.
  std::optional<RowSource> low;
  std::optional<RowSource> low_normed;
  RowSource queries;
  // Latent part and turning part; the first alone, as it is and normed.
  RowSource compressed;
  RowSource latent;
  std::optional<RowSource> latent_normed;
  RowSource expanded;
  RowSource keys;
};

// Phases before the heads, and the rows by head that they give.
struct HeadInputs {
  std::vector<StepGroup> phases;
  RowSource q = RowSource::OfCall(RowSource::Place::kQ);
  RowSource k = RowSource::OfCall(RowSource::Place::kK);
  RowSource v = RowSource::OfCall(RowSource::Place::kV);
  LatentRows latent;
};

// What the heads compute: q, k and v by head, without spec.projections.
Problem HeadProblem(const Problem& problem);

// `keep_normed`: for the way back.
HeadInputs PlanHeadInputs(const Problem& problem, bool keep_normed,
                          ScratchLayout& layout);

}  // namespace attn
