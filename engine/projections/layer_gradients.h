// The gradients of a call's layers: what is added up, where and by which steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "engine/core/problem.h"
#include "engine/core/projection_spec.h"
#include "engine/projections/scratch_layout.h"
#include "engine/projections/step_group.h"
#include "engine/projections/weight_gradient_step.h"

namespace attn {

// Each use of a weight or bias has sums of its own in scratch; the last phase
// adds those of an input, in order of their uses, to what the stages found for
// it, and writes them. Thread-compatible.
class LayerGradients {
 public:
  // Borrows `problem` and `layout`.
  LayerGradients(const Problem& problem, ScratchLayout& layout)
      : problem_(problem), layout_(layout) {}

  // A layer that was applied to `rows`, and the gradient of its results.
  void AddLayer(const LinearLayer& layer, const RowSource& rows,
                const RowSource& gradient);
  // A layer whose results no loss depends on.
  void AddZero(const LinearLayer& layer);
  // A norm's gain: `products` are those of NormGradientOptions::gradient.
  void AddGain(uint32_t input, const RowSource& products);

  // The phases that add and, at last, write. Each adds some thousand rows, so
  // that a late call can be cancelled between them.
  std::vector<StepGroup> MakePhases() const;

 private:
  std::vector<RowSegment> Segments(const RowSource& rows) const;
  // Books sums for a use of `input`.
  size_t Book(uint32_t input);

  const Problem& problem_;
  ScratchLayout& layout_;
  std::vector<WeightGradientOptions> weights_;
  std::vector<ColumnSumOptions> columns_;
  // Sums of each wanted input.
  std::map<uint32_t, std::vector<size_t>> sums_;
};

// Whether the gradient of its weight or bias is wanted.
bool WantsLayer(const GradientSelection& wanted,
                const std::optional<LinearLayer>& layer);

// Inputs that layers name and no stage of the heads does.
std::set<uint32_t> InputsOfLayersAlone(const AttentionSpec& spec);

}  // namespace attn
