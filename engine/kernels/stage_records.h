// What the stages took and gave, kept for the way back.
#pragma once

#include "engine/core/row_span.h"
#include "engine/core/row_statistics.h"
#include "engine/tile/tile.h"

namespace attn {

// A tile of scores after each stage; all of the same bounds. Where a problem
// has no such stage, a member is the one before it.
struct TileRecord {
  Tile<double> scores;   // scaled; before the softcap
  Tile<double> biased;   // what the score program took; no data without one
  Tile<double> logits;   // final
  Tile<double> weights;  // what the normalizer gave
  Tile<double> changed;  // after the weight program
  Tile<double> mixed;    // after dropout: what multiplies v
  const RowStatistics* statistics = nullptr;
};

// Rows of q or of k on their way to the score, row-major; width d is d_q or
// d_k.
struct RowsRecord {
  RowSpan span;
  // Pipeline::kept_stages() planes of [span.count, d]: what each transform
  // took, in order, then what is prepared for the score.
  double* kept = nullptr;
  // [span.count, prepared_width()]
  double* prepared = nullptr;
};

// Gradients of a tile's elements, in place, and of its rows' lse, by row; null:
// 0. And where that of q's rows goes, as the call brings them, if the
// normalizer reads them: it is added.
struct TileGradient {
  Tile<double> tile;
  const double* lse = nullptr;
  double* queries = nullptr;  // [rows, d_q]
};

// Gradient of the rows that were compared, and where that of the rows goes.
struct RowsGradient {
  double* compared = nullptr;  // [span.count, prepared_width()]
  double* rows = nullptr;      // [span.count, d]
};

// Gradients with respect to numbers of the spec, of one tile.
struct StageGradients {
  double scale = 0;
  double softcap = 0;
  double temperature = 0;
};

}  // namespace attn
