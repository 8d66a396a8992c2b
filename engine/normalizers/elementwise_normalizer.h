// Normalizers whose weights are functions of one logit each.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/normalizers/row_normalizer.h"

namespace attn {

// `Derived` has double Value(double x), double Slope(double x) and
// void MapRow(float* row, int64_t count, float divisor), which makes Value(x) /
// divisor of each element and 0 of excluded keys. Thread-safe: const.
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
    statistics->lse = std::isinf(range.max) ? static_cast<double>(range.max)
                                            : LogSumExp(row, count, range.max);
    statistics->lse_with_sink = statistics->lse;
    Map(row, count, DivisorOf(range.visible));
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
  void Map(float* row, int64_t count, double divisor) const {
    derived().MapRow(row, count, static_cast<float>(divisor));
  }
  void Map(double* row, int64_t count, double divisor) const {
    for (int64_t j = 0; j < count; ++j) {
      const bool excluded = row[j] == -std::numeric_limits<double>::infinity();
      row[j] = excluded ? 0 : derived().Value(row[j]) / divisor;
    }
  }
  double DivisorOf(int64_t visible) const {
    return divisor_ == Divisor::kVisibleKeys ? static_cast<double>(visible) : 1;
  }

  Divisor divisor_;
};

}  // namespace attn
