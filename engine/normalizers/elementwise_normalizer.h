// Normalizers whose weights are functions of one logit each.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/normalizers/row_normalizer.h"

namespace attn {

// `Derived` has double Value(double x) and double Slope(double x). Weights are
// divided by `divisor`. Excluded keys get 0. Thread-safe: const.
template <typename Derived>
class ElementwiseNormalizer : public RowNormalizer<Derived> {
 public:
  static constexpr NormalizerKind kKind = NormalizerKind::kOnline;
  static constexpr bool kSumsToOne = false;

  explicit ElementwiseNormalizer(Divisor divisor) : divisor_(divisor) {}

  template <typename T>
  void Weigh(const CallView& /*call*/, const RowAt& at,
             const RowRange<T>& range, T* row, int64_t count,
             RowStatistics* statistics) const {
    constexpr T kExcluded = -std::numeric_limits<T>::infinity();
    statistics->lse = std::isinf(range.max) ? static_cast<double>(range.max)
                                            : LogSumExp(row, count, range.max);
    statistics->lse_with_sink = statistics->lse;
    const double divisor = DivisorOf(range.visible);
    for (int64_t j = 0; j < count; ++j) {
      row[j] =
          row[j] == kExcluded
              ? T{0}
              : static_cast<T>(derived().Value(static_cast<double>(row[j])) /
                               divisor);
    }
    DescribeWeights(row, count, at, statistics);
  }
  void BackwardRow(const CallView& /*call*/, const RowAt& /*at*/,
                   const ForwardRow& row, double* gradient,
                   const GradientSink& /*sink*/) const {
    const double divisor = DivisorOf(row.statistics->visible_keys);
    for (int64_t j = 0; j < row.count; ++j) {
      gradient[j] *= derived().Slope(row.logits[j]) / divisor;
    }
  }

 private:
  const Derived& derived() const { return static_cast<const Derived&>(*this); }
  double DivisorOf(int64_t visible) const {
    return divisor_ == Divisor::kVisibleKeys ? static_cast<double>(visible) : 1;
  }

  Divisor divisor_;
};

}  // namespace attn
