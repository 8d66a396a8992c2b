// The softmax of a row with sinks, shared by the normalizers built on it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "engine/normalizers/row_normalizer.h"

namespace attn {

// Of the visible logits of a row, the largest of which is finite: sums of
// exp(x - max) and of exp(x - max) (x - max).
struct SoftmaxSums {
  double max = 0;
  double sum = 0;
  double weighted = 0;
};

// ln sum exp of the sinks of a row that sees no key.
inline double LseOfSinks(absl::Span<const double> sinks) {
  if (sinks.empty()) return -std::numeric_limits<double>::infinity();
  const double max = *std::max_element(sinks.begin(), sinks.end());
  return LogSumExp(sinks.data(), static_cast<int64_t>(sinks.size()), max);
}

// Fills lse, lse_with_sink, entropy and peak of a row. `sinks` are logits that
// join the sum and get no weight of a key. Returns what exp(x - max) is
// multiplied by: exp(max - lse_with_sink), the weight of the largest logit.
inline double DescribeSoftmax(const SoftmaxSums& sums,
                              absl::Span<const double> sinks,
                              RowStatistics* statistics) {
  const double log_sum = std::log(sums.sum);
  const double one_over_sum = 1 / sums.sum;
  statistics->lse = sums.max + log_sum;
  // Of the keys' weights over their sum, which no sink changes.
  statistics->entropy = std::max(log_sum - sums.weighted * one_over_sum, 0.0);
  if (sinks.empty()) {
    statistics->lse_with_sink = statistics->lse;
    statistics->peak_weight = one_over_sum;
    return statistics->peak_weight;
  }
  // The pivot runs over keys and sinks, so that neither overflows.
  double pivot = statistics->lse;
  for (const double sink : sinks) pivot = std::max(pivot, sink);
  double total = std::exp(statistics->lse - pivot);
  for (const double sink : sinks) total += std::exp(sink - pivot);
  statistics->lse_with_sink = pivot + std::log(total);
  statistics->peak_weight = std::exp(sums.max - statistics->lse_with_sink);
  return statistics->peak_weight;
}

// exp(x - lse_with_sink) of a finite row whose range is known. Fills lse,
// lse_with_sink, entropy, peak and top key.
template <typename T>
void SoftmaxRow(T* row, int64_t count, const RowRange<T>& range,
                absl::Span<const double> sinks, const RowAt& at,
                RowStatistics* statistics) {
  const ExpSums sums = ExpRow(row, count, range.max);
  const auto factor = static_cast<T>(
      DescribeSoftmax({static_cast<double>(range.max), sums.sum, sums.weighted},
                      sinks, statistics));
  ScaleRow(row, count, factor);
  // The largest logit has exp(0) = 1, so that its weight is the factor itself.
  const int64_t top = FirstIndexOf(row, count, factor);
  statistics->top_key = factor > T{0} ? at.key_begin + top : -1;
}

// dx = w (g - sum w g), for weights that sum to 1 or, with sinks, to less.
// Returns sum w g.
inline double SoftmaxBackwardRow(const ForwardRow& row, double* gradient) {
  double sum = 0;
  for (int64_t j = 0; j < row.count; ++j) {
    if (row.weights[j] != 0) sum += row.weights[j] * gradient[j];
  }
  for (int64_t j = 0; j < row.count; ++j) {
    gradient[j] =
        row.weights[j] == 0 ? 0 : row.weights[j] * (gradient[j] - sum);
  }
  return sum;
}

}  // namespace attn
