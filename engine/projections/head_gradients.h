// From the gradients of the heads' q, k and v to those of the layers and token
// rows that they were made of.
#pragma once

#include <optional>
#include <vector>

#include "engine/core/problem.h"
#include "engine/projections/head_inputs.h"
#include "engine/projections/layer_gradients.h"
#include "engine/projections/scratch_layout.h"
#include "engine/projections/step_group.h"

namespace attn {

// Which of the heads' rows need a gradient: those whose own is wanted, or that
// of what a layer made them of.
struct WantedRows {
  bool q = false;
  bool k = false;
  bool v = false;
};
WantedRows WantedHeadGradients(const Problem& problem);

// Where the heads put the gradients of their rows, by head, and the phases that
// go on from there. Absent: not wanted.
struct HeadGradients {
  std::optional<RowSource> q;
  std::optional<RowSource> k;
  std::optional<RowSource> v;
  std::vector<StepGroup> phases;
};

// Adds to `gradients` what the layers are made of.
HeadGradients PlanHeadGradients(const Problem& problem,
                                const HeadInputs& inputs, ScratchLayout& layout,
                                LayerGradients& gradients);

}  // namespace attn
