// Rows of a softmax in f32 on their way from logits to weights, part by part.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/core/gradient_sink.h"
#include "engine/core/row_statistics.h"
#include "engine/kernels/pipeline.h"
#include "engine/tile/tile.h"

namespace attn {

// 0 for what is infinite or NaN: its terms are added apart.
inline float OrZero(float x) { return std::isfinite(x) ? x : 0; }

// What is known of a row. Its weights are factor() * E, E = exp(x - max).
struct SoftmaxRow {
  float max = 0;
  // Whether the row is empty or spoilt: it holds its weights already.
  bool settled = false;
  // Of E, and of E * (x - max). 0 where no key is visible.
  double sum = 0;
  double weighted = 0;
  // Of all weights: below 1 beside sinks.
  double mass = 0;

  double factor() const { return sum == 0 ? 0 : mass / sum; }
};

// Scan(), then Exponentiate() for each part of the keys, then Complete(). The
// statistics are those of the normalizer. Thread-safe: const.
class SoftmaxRows {
 public:
  // Of a problem whose normalizer is softmax or softmax_plus. Borrows
  // `pipeline`.
  SoftmaxRows(const Problem& problem, const Pipeline& pipeline);

  // `logits` holds every visible key of its rows; `rows` and `statistics` are
  // by row of the tile, here and below.
  void Scan(const CallView& call, const Tile<float>& logits, SoftmaxRow* rows,
            RowStatistics* statistics) const;
  // Turns the logits of a part of the keys into E.
  void Exponentiate(const Tile<float>& part, SoftmaxRow* rows) const;
  // `weights` is what Scan() took.
  void Complete(const CallView& call, const Tile<float>& weights,
                SoftmaxRow* rows, RowStatistics* statistics) const;

  // Adds the gradient of sinks to `sink`, given the sum over row r's keys of
  // its weights times their gradients.
  void SinksBackward(const CallView& call, const TileBounds& bounds, int64_t r,
                     const SoftmaxRow& row, const RowStatistics& statistics,
                     double product, const GradientSink& sink) const;

 private:
  void JoinSinks(const CallView& call, const TileBounds& bounds,
                 SoftmaxRow& row, RowStatistics& statistics) const;

  const Normalizer& normalizer_;
  bool has_sinks_;
};

}  // namespace attn
