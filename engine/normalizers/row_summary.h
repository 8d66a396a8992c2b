// One row of a tile: where it is, and what is told of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/core/row_statistics.h"
#include "engine/tile/row_math.h"
#include "engine/tile/weight_sums.h"

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
  return static_cast<double>(max) + std::log(SumExp(row, count, max));
}

// Entropy, peak and top key of a row of weights. The entropy is that of the
// weights' sizes over their sum; a peak is above 0, or there is none: a
// negative weight is not the largest beside an excluded key's 0.
template <typename T>
void DescribeWeights(const T* weights, int64_t count, const RowAt& at,
                     RowStatistics* statistics) {
  const WeightSums<T> sums = SumWeights(weights, count);
  statistics->entropy =
      sums.sum > 0
          ? std::max(std::log(sums.sum) - sums.weighted / sums.sum, 0.0)
          : 0;
  statistics->peak_weight = static_cast<double>(sums.max);
  statistics->top_key =
      sums.max > 0 ? at.key_begin + FirstIndexOf(weights, count, sums.max) : -1;
}

// Of a row with a NaN among its logits or, where weights sum to 1, an infinite
// one: every visible weight is NaN.
template <typename T>
RowStatistics SpoiledStatistics(const RowRange<T>& range) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
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

// Every visible weight of such a row becomes NaN.
template <typename T>
RowStatistics SpoilRow(T* row, int64_t count, const RowRange<T>& range) {
  constexpr T kExcluded = -std::numeric_limits<T>::infinity();
  for (int64_t j = 0; j < count; ++j) {
    row[j] = row[j] == kExcluded ? T{0} : std::numeric_limits<T>::quiet_NaN();
  }
  return SpoiledStatistics(range);
}

}  // namespace attn
