// Normalizers that treat each row by itself.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/normalizers/normalizer.h"
#include "engine/tile/row_math.h"

namespace attn {

// Which row of a tile it is; keys count from key_begin on.
struct RowAt {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  int64_t key_begin = 0;
};

// One row on the way back.
struct ForwardRow {
  const double* logits = nullptr;
  const double* weights = nullptr;
  int64_t count = 0;
  const RowStatistics* statistics = nullptr;
};

// ln sum exp over the visible elements; `max` is the largest, finite.
template <typename T>
double LogSumExp(const T* row, int64_t count, T max) {
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    sum += std::exp(static_cast<double>(row[j]) - static_cast<double>(max));
  }
  return static_cast<double>(max) + std::log(sum);
}

// Entropy, peak and top key of a row of weights that are >= 0. The entropy is
// that of the weights over their sum.
template <typename T>
void DescribeWeights(const T* weights, int64_t count, const RowAt& at,
                     RowStatistics* statistics) {
  double sum = 0;
  double weighted = 0;
  for (int64_t j = 0; j < count; ++j) {
    const double w = std::abs(static_cast<double>(weights[j]));
    if (w == 0) continue;
    sum += w;
    weighted += w * std::log(w);
  }
  statistics->entropy =
      sum > 0 ? std::max(std::log(sum) - weighted / sum, 0.0) : 0;
  const int64_t top = FirstMaxIndex(weights, count);
  statistics->peak_weight = top < 0 ? 0 : static_cast<double>(weights[top]);
  statistics->top_key = top < 0 || weights[top] <= 0 ? -1 : at.key_begin + top;
}

// Every visible weight of a row becomes NaN, as a NaN among its logits, or an
// infinite one where weights sum to 1, demands.
template <typename T>
RowStatistics SpoilRow(T* row, int64_t count, const RowRange<T>& range) {
  constexpr T kExcluded = -std::numeric_limits<T>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (int64_t j = 0; j < count; ++j) {
    row[j] = row[j] == kExcluded ? T{0} : std::numeric_limits<T>::quiet_NaN();
  }
  RowStatistics statistics;
  statistics.visible_keys = range.visible;
  statistics.entropy = kNaN;
  statistics.peak_weight = kNaN;
  // ln of an infinite sum is infinite, whatever the weights are.
  const double extreme = static_cast<double>(range.max);
  statistics.lse = range.has_nan ? kNaN : extreme;
  statistics.lse_with_sink = statistics.lse;
  statistics.logit_min = range.has_nan ? kNaN : static_cast<double>(range.min);
  statistics.logit_max = range.has_nan ? kNaN : extreme;
  return statistics;
}

// `Derived` has
//   static constexpr NormalizerKind kKind;
//   static constexpr bool kSumsToOne;     // then +infinity spoils a row
//   template <typename T>
//   void Weigh(const CallView&, const RowAt&, const RowRange<T>&, T* row,
//              int64_t count, RowStatistics*) const;
//   void BackwardRow(const CallView&, const RowAt&, const ForwardRow&,
//                    double* gradient, const GradientSink&) const;
// Weigh() gets a row with a visible key and without NaN, and statistics that
// hold visible keys, logit range and lse; it fills the others. BackwardRow()
// gets the gradient of the weights and leaves that of the logits; excluded
// keys are set to 0 afterwards. Thread-safe: const.
template <typename Derived>
class RowNormalizer : public Normalizer {
 public:
  NormalizerKind kind() const final { return Derived::kKind; }

  void Normalize(const CallView& call, const Tile<float>& tile,
                 RowStatistics* statistics) const final {
    NormalizeTile(call, tile, statistics);
  }
  void Normalize(const CallView& call, const Tile<double>& tile,
                 RowStatistics* statistics) const final {
    NormalizeTile(call, tile, statistics);
  }
  void Backward(const CallView& call, const NormalizedTile& forward,
                const Tile<double>& gradient,
                const GradientSink& sink) const final {
    constexpr double kExcluded = -std::numeric_limits<double>::infinity();
    for (int64_t r = 0; r < gradient.bounds.rows; ++r) {
      const ForwardRow row{forward.logits.Row(r), forward.weights.Row(r),
                           gradient.bounds.keys, forward.statistics + r};
      double* g = gradient.Row(r);
      if (row.statistics->visible_keys > 0) {
        self().BackwardRow(call, At(gradient.bounds, r), row, g, sink);
      }
      const double dlse =
          forward.lse_gradient == nullptr ? 0 : forward.lse_gradient[r];
      for (int64_t j = 0; j < row.count; ++j) {
        if (row.logits[j] == kExcluded) {
          g[j] = 0;
        } else if (dlse != 0) {
          g[j] += dlse * std::exp(row.logits[j] - row.statistics->lse);
        }
      }
    }
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
  static RowAt At(const TileBounds& bounds, int64_t r) {
    return {bounds.batch, bounds.head, bounds.row_begin + r, bounds.key_begin};
  }

  template <typename T>
  void NormalizeTile(const CallView& call, const Tile<T>& tile,
                     RowStatistics* statistics) const {
    for (int64_t r = 0; r < tile.bounds.rows; ++r) {
      statistics[r] =
          NormalizeRow(call, At(tile.bounds, r), tile.Row(r), tile.bounds.keys);
    }
  }
  template <typename T>
  RowStatistics NormalizeRow(const CallView& call, const RowAt& at, T* row,
                             int64_t count) const {
    const RowRange<T> range = ScanRow(row, count);
    RowStatistics statistics;
    if (range.visible == 0) {
      std::fill_n(row, count, T{0});
      self().EmptyRow(call, at, &statistics);
      return statistics;
    }
    if (range.has_nan || (Derived::kSumsToOne && std::isinf(range.max))) {
      return SpoilRow(row, count, range);
    }
    statistics.visible_keys = range.visible;
    statistics.logit_min = static_cast<double>(range.min);
    statistics.logit_max = static_cast<double>(range.max);
    self().Weigh(call, at, range, row, count, &statistics);
    return statistics;
  }

 public:
  // What a row without visible keys has beyond the defaults.
  void EmptyRow(const CallView& /*call*/, const RowAt& /*at*/,
                RowStatistics* /*statistics*/) const {}
};

}  // namespace attn
