// The softmax of a row with sinks, shared by the normalizers built on it.
#pragma once

#include <cmath>
#include <cstdint>

#include "absl/types/span.h"
#include "engine/normalizers/row_normalizer.h"

namespace attn {

// exp(x - lse_with_sink) of a finite row whose range is known; `sinks` are
// logits that join the sum and get no weight of a key. Fills lse,
// lse_with_sink, entropy, peak and top key.
template <typename T>
void SoftmaxRow(T* row, int64_t count, const RowRange<T>& range,
                absl::Span<const double> sinks, const RowAt& at,
                RowStatistics* statistics) {
  const ExpSums sums = ExpRow(row, count, range.max);
  const auto max = static_cast<double>(range.max);
  const double log_sum = std::log(sums.sum);
  statistics->lse = max + log_sum;
  // The pivot runs over keys and sinks, so that neither overflows.
  double pivot = statistics->lse;
  for (const double sink : sinks) pivot = std::max(pivot, sink);
  double total = std::exp(statistics->lse - pivot);
  for (const double sink : sinks) total += std::exp(sink - pivot);
  statistics->lse_with_sink =
      sinks.empty() ? statistics->lse : pivot + std::log(total);
  // exp(max - lse_with_sink), the weight of the largest logit.
  const double peak =
      sinks.empty() ? 1 / sums.sum : std::exp(max - statistics->lse_with_sink);
  const auto factor = static_cast<T>(peak);
  ScaleRow(row, count, factor);
  // Of the keys' weights over their sum, which no sink changes.
  statistics->entropy = std::max(log_sum - sums.weighted / sums.sum, 0.0);
  statistics->peak_weight = peak;
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
