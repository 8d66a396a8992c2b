// relu(x) / (sum relu(x) + eps).
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/normalizers/members.h"
#include "engine/normalizers/row_normalizer.h"
#include "engine/tile/elementwise_rows.h"

namespace attn {
namespace {

class Divisive final : public RowNormalizer<Divisive> {
 public:
  static constexpr NormalizerKind kKind = NormalizerKind::kRowwise;
  static constexpr bool kSumsToOne = true;

  explicit Divisive(double eps) : eps_(eps) {}

  template <typename T>
  void Weigh(const CallView& /*call*/, const RowAt& at,
             const RowRange<T>& range, T* row, int64_t count,
             RowStatistics* statistics) const {
    statistics->lse = LogSumExp(row, count, range.max);
    statistics->lse_with_sink = statistics->lse;
    const double divisor = Sum(row, count) + eps_;
    Divide(row, count, divisor);
    DescribeWeights(row, count, at, statistics);
  }
  // w = r / s: dr = (g - sum w g) / s where x > 0.
  void BackwardRow(const CallView& /*call*/, const RowAt& /*at*/,
                   const ForwardRow& row, double* gradient,
                   const GradientSink& /*sink*/) const {
    const double divisor = Sum(row.logits, row.count) + eps_;
    double sum = 0;
    for (int64_t j = 0; j < row.count; ++j) {
      if (row.weights[j] > 0) sum += row.weights[j] * gradient[j];
    }
    for (int64_t j = 0; j < row.count; ++j) {
      gradient[j] = row.logits[j] > 0 ? (gradient[j] - sum) / divisor : 0;
    }
  }

 private:
  static double Sum(const float* row, int64_t count) {
    return SumPositive(row, count);
  }
  static double Sum(const double* row, int64_t count) {
    double sum = 0;
    for (int64_t j = 0; j < count; ++j) sum += std::max(row[j], 0.0);
    return sum;
  }
  // A divisor that no normal float can be is taken as the double it is.
  static void Divide(float* row, int64_t count, double divisor) {
    constexpr double kLargest = std::numeric_limits<float>::max();
    constexpr double kSmallest = std::numeric_limits<float>::min();
    if (divisor >= kSmallest && divisor <= kLargest) {
      ReluRow(row, count, 1, static_cast<float>(divisor));
    } else {
      DivideEach(row, count, divisor);
    }
  }
  static void Divide(double* row, int64_t count, double divisor) {
    DivideEach(row, count, divisor);
  }
  template <typename T>
  static void DivideEach(T* row, int64_t count, double divisor) {
    for (int64_t j = 0; j < count; ++j) {
      row[j] = row[j] > 0
                   ? static_cast<T>(static_cast<double>(row[j]) / divisor)
                   : T{0};
    }
  }

  double eps_;
};

absl::Status Validate(const NormalizerSpec& spec, const Problem& /*problem*/,
                      absl::string_view field) {
  const double eps = std::get<DivisiveNormalizer>(spec).eps;
  if (std::isfinite(eps) && eps >= 0) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".divisive.eps"), absl::StrCat(eps),
                    "a finite number >= 0");
}

std::string Describe(const NormalizerSpec& /*spec*/) { return "relu(x) / sum"; }

std::unique_ptr<Normalizer> Make(const NormalizerSpec& spec,
                                 const Problem& /*problem*/) {
  return std::make_unique<Divisive>(std::get<DivisiveNormalizer>(spec).eps);
}

}  // namespace

NormalizerEntry DivisiveNormalizerEntry() {
  return {"divisive", "relu(x) over its sum", 6, Validate, Describe, Make};
}

}  // namespace attn
