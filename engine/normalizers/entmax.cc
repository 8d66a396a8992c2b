// alpha-entmax (Peters et al. 2019), with alphas by head (Correia et al. 2019).
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/normalizers/entmax_row.h"
#include "engine/normalizers/members.h"
#include "engine/normalizers/softmax_row.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

constexpr double kUsualAlpha = 1.5;

class Entmax final : public RowNormalizer<Entmax> {
 public:
  static constexpr NormalizerKind kKind = NormalizerKind::kRowwise;
  static constexpr bool kSumsToOne = true;

  explicit Entmax(const EntmaxNormalizer& spec) : spec_(spec) {}

  template <typename T>
  void Weigh(const CallView& call, const RowAt& at, const RowRange<T>& range,
             T* row, int64_t count, RowStatistics* statistics) const {
    const double alpha = AlphaOf(call, at.head);
    if (alpha == 1) {
      SoftmaxRow(row, count, range, {}, at, statistics);
      return;
    }
    // An alpha below 1 in the call's tensor has no meaning.
    if (!(alpha > 1)) {
      *statistics = SpoilRow(row, count, range);
      return;
    }
    statistics->lse = LogSumExp(row, count, range.max);
    statistics->lse_with_sink = statistics->lse;
    EntmaxRow(row, count, range, alpha);
    DescribeWeights(row, count, at, statistics);
  }

  void BackwardRow(const CallView& call, const RowAt& at, const ForwardRow& row,
                   double* gradient, const GradientSink& sink) const {
    const double alpha = AlphaOf(call, at.head);
    double* of_alphas = spec_.alphas ? sink.Of(*spec_.alphas) : nullptr;
    if (of_alphas != nullptr) {
      of_alphas[at.head] += AlphaGradient(row, alpha, gradient);
    }
    EntmaxBackwardRow(row, alpha, gradient);
  }

 private:
  double AlphaOf(const CallView& call, int64_t head) const {
    if (spec_.alphas.has_value()) {
      return ParameterView(call.args.inputs[*spec_.alphas]).At(head);
    }
    return spec_.alpha.value_or(kUsualAlpha);
  }

  // sum g dp/dalpha, with s = p^(2 - alpha) / sum, h = -p ln p and
  // dp/dalpha = (p - s) / (alpha - 1)^2 + (h - s sum h) / (alpha - 1)
  // (Correia et al. 2019, proposition 1). The limit at 1 is not formed: 0.
  static double AlphaGradient(const ForwardRow& row, double alpha,
                              const double* gradient) {
    if (alpha <= 1) return 0;
    double sum_s = 0;
    double sum_h = 0;
    for (int64_t j = 0; j < row.count; ++j) {
      const double p = row.weights[j];
      if (p <= 0) continue;
      sum_s += std::pow(p, 2 - alpha);
      sum_h -= p * std::log(p);
    }
    const double b = alpha - 1;
    double total = 0;
    for (int64_t j = 0; j < row.count; ++j) {
      const double p = row.weights[j];
      if (p <= 0) continue;
      const double s = std::pow(p, 2 - alpha) / sum_s;
      total += gradient[j] *
               ((p - s) / (b * b) + (-p * std::log(p) - s * sum_h) / b);
    }
    return total;
  }

  EntmaxNormalizer spec_;
};

absl::Status Validate(const NormalizerSpec& spec, const Problem& problem,
                      absl::string_view normalizer_field) {
  const auto& entmax = std::get<EntmaxNormalizer>(spec);
  const std::string field = absl::StrCat(normalizer_field, ".entmax");
  const double alpha = entmax.alpha.value_or(kUsualAlpha);
  if (!std::isfinite(alpha) || alpha < 1) {
    return FieldError(absl::StrCat(field, ".alpha"), absl::StrCat(alpha),
                      "a finite number >= 1");
  }
  if (!entmax.alphas.has_value()) return absl::OkStatus();
  if (entmax.alpha.has_value()) {
    return FieldError(absl::StrCat(field, ".alphas"), "alphas beside alpha",
                      "one of the two");
  }
  return CheckParameter(problem, *entmax.alphas, {Shape{problem.shape.q_heads}},
                        absl::StrCat(field, ".alphas.input"));
}

std::string Describe(const NormalizerSpec& spec) {
  const auto& entmax = std::get<EntmaxNormalizer>(spec);
  return entmax.alphas
             ? "entmax(alpha[h])"
             : absl::StrCat("entmax(", entmax.alpha.value_or(kUsualAlpha), ")");
}

std::unique_ptr<Normalizer> Make(const NormalizerSpec& spec,
                                 const Problem& /*problem*/) {
  return std::make_unique<Entmax>(std::get<EntmaxNormalizer>(spec));
}

}  // namespace

NormalizerEntry EntmaxNormalizerEntry() {
  return {"entmax", "sparse for alpha > 1: 1.5 unless given, or by head",
          3,        Validate,
          Describe, Make};
}

}  // namespace attn
