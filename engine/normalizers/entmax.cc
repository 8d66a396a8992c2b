// alpha-entmax (Peters et al. 2019), with alphas by head (Correia et al. 2019).
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/normalizers/entmax_gradient.h"
#include "engine/normalizers/entmax_row.h"
#include "engine/normalizers/members.h"
#include "engine/normalizers/softmax_row.h"
#include "engine/tile/parameter_view.h"
#include "engine/tile/sparse_rows.h"

namespace attn {
namespace {

constexpr double kUsualAlpha = 1.5;

void SolveRow(double* row, int64_t count, const RowRange<double>& range,
              double alpha) {
  EntmaxRow(row, count, range, alpha);
}

// Logits that may have a weight, if they are no more.
constexpr int64_t kRoom = 4096;

// Above alpha = 2 few logits have a weight: those are found first.
void SolveRow(float* row, int64_t count, const RowRange<float>& range,
              double alpha) {
  if (alpha <= 2) return EntmaxRow(row, count, range.max, alpha);
  const float reach = static_cast<float>(1 / (alpha - 1));
  // Rounded down twice: where the reach is lost in the maximum, too.
  const float bound = std::nextafter(range.max - std::nextafter(reach, 2.0F),
                                     -std::numeric_limits<float>::infinity());
  float candidates[kRoom];
  const int64_t found = CopyAbove(row, count, bound, candidates, kRoom);
  if (found > kRoom) return EntmaxRow(row, count, range, alpha);
  EntmaxRow(candidates, found, range, alpha);
  const float* weight = candidates;
  for (int64_t j = 0; j < count; ++j) row[j] = row[j] > bound ? *weight++ : 0;
}

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
    SolveRow(row, count, range, alpha);
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

  // sum g dp/dalpha with b = alpha - 1, s = p^(1 - b) / sum, h = -p ln p and
  // dp/dalpha = (p - s) / b^2 + (h - s sum h) / b (Correia et al. 2019,
  // proposition 1). p - s is formed by expm1, as it vanishes with b; at b = 0
  // the limit is p (sum p ln^2 p - ln^2 p) / 2.
  static double AlphaGradient(const ForwardRow& row, double alpha,
                              const double* gradient) {
    const double b = alpha - 1;
    double sum_e = 0;  // of p^(1 - b) - p
    double sum_h = 0;
    double squares = 0;
    for (int64_t j = 0; j < row.count; ++j) {
      const double p = row.weights[j];
      if (p <= 0) continue;
      const double log = std::log(p);
      sum_e += p * std::expm1(-b * log);
      sum_h -= p * log;
      squares += p * log * log;
    }
    double total = 0;
    for (int64_t j = 0; j < row.count; ++j) {
      const double p = row.weights[j];
      if (p <= 0) continue;
      const double log = std::log(p);
      const double e = std::expm1(-b * log);
      const double s = p * (1 + e) / (1 + sum_e);
      const double p_less_s = p * (sum_e - e) / (1 + sum_e);
      total +=
          gradient[j] * (b == 0 ? p * (squares - log * log) / 2
                                : (p_less_s / b + (-p * log - s * sum_h)) / b);
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
