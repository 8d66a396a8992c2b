// Normalizers that treat each row by itself.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/normalizers/normalizer.h"
#include "engine/normalizers/row_summary.h"
#include "engine/tile/row_math.h"

namespace attn {

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
