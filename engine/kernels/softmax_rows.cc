#include "engine/kernels/softmax_rows.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Row r of a tile.
Tile<float> RowOf(const Tile<float>& tile, int64_t r) {
  Tile<float> row = tile;
  row.bounds.row_begin += r;
  row.bounds.rows = 1;
  row.data = tile.Row(r);
  return row;
}

// One key of one row.
Tile<double> OneKey(const TileBounds& row, double* value) {
  TileBounds bounds = row;
  bounds.rows = bounds.keys = 1;
  return {bounds, value, 1};
}

bool HasSinks(const NormalizerSpec& spec) {
  const auto* softmax = std::get_if<SoftmaxNormalizer>(&spec);
  return softmax == nullptr || softmax->sink.has_value();
}

}  // namespace

SoftmaxRows::SoftmaxRows(const Problem& problem, const Pipeline& pipeline)
    : normalizer_(pipeline.normalizer()),
      has_sinks_(HasSinks(problem.spec.normalizer)) {}

void SoftmaxRows::Scan(const CallView& call, const Tile<float>& logits,
                       SoftmaxRow* rows, RowStatistics* statistics) const {
  const int64_t count = logits.bounds.keys;
  for (int64_t r = 0; r < logits.bounds.rows; ++r) {
    const RowRange<float> range = ScanRow(logits.Row(r), count);
    rows[r] = {.max = range.max};
    statistics[r] = {};
    if (range.visible == 0) {
      std::fill_n(logits.Row(r), count, 0.0F);
      rows[r].settled = true;
    } else if (range.has_nan || std::isinf(range.max)) {
      // The normalizer knows what becomes of such a row.
      normalizer_.Normalize(call, RowOf(logits, r), statistics + r);
      rows[r].settled = true;
      rows[r].sum = rows[r].mass = 1;
    } else {
      statistics[r].visible_keys = range.visible;
      statistics[r].logit_min = static_cast<double>(range.min);
      statistics[r].logit_max = static_cast<double>(range.max);
    }
  }
}

void SoftmaxRows::Exponentiate(const Tile<float>& part,
                               SoftmaxRow* rows) const {
  for (int64_t r = 0; r < part.bounds.rows; ++r) {
    if (rows[r].settled) continue;
    const ExpSums sums = ExpRow(part.Row(r), part.bounds.keys, rows[r].max);
    rows[r].sum += sums.sum;
    rows[r].weighted += sums.weighted;
  }
}

void SoftmaxRows::Complete(const CallView& call, const Tile<float>& weights,
                           SoftmaxRow* rows, RowStatistics* statistics) const {
  for (int64_t r = 0; r < weights.bounds.rows; ++r) {
    SoftmaxRow& row = rows[r];
    RowStatistics& told = statistics[r];
    if (row.settled && told.visible_keys > 0) continue;
    if (!row.settled) {
      const double log_sum = std::log(row.sum);
      told.lse = static_cast<double>(row.max) + log_sum;
      told.entropy = std::max(log_sum - row.weighted / row.sum, 0.0);
    }
    JoinSinks(call, RowOf(weights, r).bounds, row, told);
    if (row.settled) continue;
    told.peak_weight = row.factor();
    if (static_cast<float>(told.peak_weight) == 0) continue;
    // The largest logit is the one whose exponential is 1.
    told.top_key = weights.bounds.key_begin +
                   FirstIndexOf(weights.Row(r), weights.bounds.keys, 1);
  }
}

// A row of a softmax is beside its sinks as one key with the row's lse.
void SoftmaxRows::JoinSinks(const CallView& call, const TileBounds& bounds,
                            SoftmaxRow& row, RowStatistics& statistics) const {
  row.mass = row.settled ? 0 : 1;
  statistics.lse_with_sink = statistics.lse;
  if (!has_sinks_) return;
  RowStatistics joint;
  row.mass = statistics.lse;
  normalizer_.Normalize(call, OneKey(bounds, &row.mass), &joint);
  statistics.lse_with_sink = joint.lse_with_sink;
}

void SoftmaxRows::SinksBackward(const CallView& call, const TileBounds& bounds,
                                int64_t r, const SoftmaxRow& row,
                                const RowStatistics& statistics, double product,
                                const GradientSink& sink) const {
  if (!has_sinks_ || row.mass == 0) return;
  TileBounds at = bounds;
  at.row_begin += r;
  double lse = statistics.lse;
  double mass = row.mass;
  double gradient = product / mass;
  normalizer_.Backward(
      call, {OneKey(at, &lse), OneKey(at, &mass), &statistics, nullptr},
      OneKey(at, &gradient), sink);
}

}  // namespace attn
