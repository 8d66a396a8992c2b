// The gradient of a layer's weight, added up over its rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/core/problem.h"
#include "engine/projections/step.h"

namespace attn {

// Rows [begin, end) of all batch entries, one after the other, that one phase
// adds; the first puts its sums where the others add theirs.
struct RowSegment {
  int64_t begin = 0;
  int64_t end = 0;
  bool first() const { return begin == 0; }
};

struct WeightGradientOptions {
  // What the layer was applied to, X [B, 1, S, in], and the gradient dY of its
  // results, [B, 1, S, out].
  RowSource rows;
  RowSource gradient;
  int64_t out = 0;
  int64_t in = 0;
  // dY^T X, [out, in] doubles in scratch.
  size_t sums = 0;
};

// Products of 128 rows in f32 by oneDNN, or in double in a double call; their
// sums in double and in the order of the rows. A job has a block of the sums.
std::unique_ptr<const ProjectionStep> MakeWeightGradientStep(
    const Problem& problem, const WeightGradientOptions& options,
    const RowSegment& segment);

struct ColumnSumOptions {
  // [B, 1, S, width].
  RowSource gradient;
  int64_t width = 0;
  // The sum of the rows, [width] doubles in scratch.
  size_t sums = 0;
};

// In double and in the order of the rows: the gradient of a bias.
std::unique_ptr<const ProjectionStep> MakeColumnSumStep(
    const Problem& problem, const ColumnSumOptions& options,
    const RowSegment& segment);

}  // namespace attn
