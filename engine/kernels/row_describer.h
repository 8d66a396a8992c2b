// Statistics of rows that a normalizer does not gather on its way.
#pragma once

#include <cstdint>

#include "engine/core/problem.h"
#include "engine/core/row_statistics.h"
#include "engine/kernels/head_rows.h"
#include "engine/tile/tile.h"

namespace attn {

// What a row's statistics are made from: tiles of the same bounds that hold
// every visible key of their rows.
template <typename T>
struct DescribedTile {
  // Final logits; -infinity marks an excluded key.
  Tile<T> logits;
  // As they are reported: after the weight program, before dropout.
  Tile<T> weights;
  // Norms of the values of the tile's keys, from its first one on.
  const double* norms = nullptr;
};

// Norms [count] of value rows [key, key + count), by way of `scratch`, which
// holds one row. T and N are float or double.
template <typename T, typename N>
void ValueNorms(const HeadRows& values, int64_t key, int64_t count, T* scratch,
                N* norms);

// What is asked of a block beyond the normalizer's own work. Describe()
// completes what the normalizer left in statistics[r] for row r of the tiles:
// of a weight program's weights entropy, peak and top key, as DescribeWeights()
// has them; if the problem asks for statistics, the moments of the logits and
// the contribution. Excluded keys' norms do not matter. The sums are in double
// and in an order that depends on the tile alone. Thread-safe: const.
class RowDescriber {
 public:
  explicit RowDescriber(const Problem& problem)
      : again_(problem.spec.weight_program.has_value()),
        moments_(problem.outputs.statistics),
        contribution_(problem.outputs.contribution),
        gradient_weight_(problem.outputs.gradient_weight) {}

  // Whether final logits are asked for once there are weights, and norms; and
  // whether a tile is needed for views (score_views.h).
  bool needs_logits() const { return again_ || moments_ || needs_view(); }
  bool needs_norms() const { return moments_ || contribution_; }
  bool needs_view() const { return contribution_ || gradient_weight_; }
  bool needs_cotangent() const { return gradient_weight_; }

  template <typename T>
  void Describe(const DescribedTile<T>& tile, RowStatistics* statistics) const;

 private:
  bool again_;
  bool moments_;
  bool contribution_;
  bool gradient_weight_;
};

}  // namespace attn
