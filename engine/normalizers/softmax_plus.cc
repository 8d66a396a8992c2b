// exp(x) / (n + sum exp(x)): n = 1 is softmax-off-by-one. As a softmax with a
// sink of ln n.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/normalizers/members.h"
#include "engine/normalizers/softmax_row.h"

namespace attn {
namespace {

class SoftmaxPlus final : public RowNormalizer<SoftmaxPlus> {
 public:
  static constexpr NormalizerKind kKind = NormalizerKind::kOnline;
  static constexpr bool kSumsToOne = true;

  explicit SoftmaxPlus(double n) : log_n_(std::log(n)) {}

  bool is_softmax() const override { return true; }
  absl::Span<const double> Sinks(const CallView& /*call*/, int64_t /*head*/,
                                 double* /*storage*/) const override {
    return {&log_n_, 1};
  }

  template <typename T>
  void Weigh(const CallView& /*call*/, const RowAt& at,
             const RowRange<T>& range, T* row, int64_t count,
             RowStatistics* statistics) const {
    SoftmaxRow(row, count, range, {&log_n_, 1}, at, statistics);
  }
  void EmptyRow(const CallView& /*call*/, const RowAt& /*at*/,
                RowStatistics* statistics) const {
    statistics->lse_with_sink = log_n_;
  }
  void BackwardRow(const CallView& /*call*/, const RowAt& /*at*/,
                   const ForwardRow& row, double* gradient,
                   const GradientSink& /*sink*/) const {
    SoftmaxBackwardRow(row, gradient);
  }

 private:
  double log_n_;
};

absl::Status Validate(const NormalizerSpec& spec, const Problem& /*problem*/,
                      absl::string_view field) {
  const double n = std::get<SoftmaxPlusNormalizer>(spec).n;
  if (std::isfinite(n) && n > 0) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".softmax_plus.n"), absl::StrCat(n),
                    "a finite number above 0");
}

std::string Describe(const NormalizerSpec& spec) {
  return absl::StrCat("softmax_plus(", std::get<SoftmaxPlusNormalizer>(spec).n,
                      ")");
}

std::unique_ptr<Normalizer> Make(const NormalizerSpec& spec,
                                 const Problem& /*problem*/) {
  return std::make_unique<SoftmaxPlus>(std::get<SoftmaxPlusNormalizer>(spec).n);
}

}  // namespace

NormalizerEntry SoftmaxPlusNormalizerEntry() {
  return {"softmax_plus",
          "exp(x) / (n + sum exp(x)), off-by-one for n = 1",
          1,
          Validate,
          Describe,
          Make};
}

}  // namespace attn
