// Weight 1 on the largest logit.
#include <string>

#include "engine/normalizers/members.h"
#include "engine/normalizers/row_normalizer.h"

namespace attn {
namespace {

class Hard final : public RowNormalizer<Hard> {
 public:
  static constexpr NormalizerKind kKind = NormalizerKind::kRowwise;
  static constexpr bool kSumsToOne = false;

  template <typename T>
  void Weigh(const CallView& /*call*/, const RowAt& at,
             const RowRange<T>& range, T* row, int64_t count,
             RowStatistics* statistics) const {
    statistics->lse = std::isinf(range.max) ? static_cast<double>(range.max)
                                            : LogSumExp(row, count, range.max);
    statistics->lse_with_sink = statistics->lse;
    const int64_t top = FirstMaxIndex(row, count);
    std::fill_n(row, count, T{0});
    row[top] = 1;
    DescribeWeights(row, count, at, statistics);
  }
  std::string WhyNoGradient() const override {
    return "the hard normalizer is constant almost everywhere";
  }
  void BackwardRow(const CallView& /*call*/, const RowAt& /*at*/,
                   const ForwardRow& row, double* gradient,
                   const GradientSink& /*sink*/) const {
    std::fill_n(gradient, row.count, 0.0);
  }
};

absl::Status Validate(const NormalizerSpec& /*spec*/,
                      const Problem& /*problem*/, absl::string_view /*field*/) {
  return absl::OkStatus();
}

std::string Describe(const NormalizerSpec& /*spec*/) { return "hard"; }

std::unique_ptr<Normalizer> Make(const NormalizerSpec& /*spec*/,
                                 const Problem& /*problem*/) {
  return std::make_unique<Hard>();
}

}  // namespace

NormalizerEntry HardNormalizerEntry() {
  return {"hard", "weight 1 on the largest logit", 7, Validate, Describe, Make};
}

}  // namespace attn
