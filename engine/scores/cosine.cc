// scale * <q, k> / (max(|q|, eps) max(|k|, eps)) (Liu et al. 2022, section
// 3.2, for the learned scale). A zero vector scores 0.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/scores/members.h"
#include "engine/scores/product_score.h"

namespace attn {
namespace {

class Cosine final : public ProductScore {
 public:
  Cosine(const CosineScore& spec, int64_t width)
      : ProductScore(spec.scale.value_or(1), spec.learned_scale),
        eps_(spec.eps),
        width_(width) {}

  int64_t prepared_width() const override { return width_; }
  bool prepares() const override { return true; }

  void PrepareQueries(const CallView& /*call*/, const RowSpan& span,
                      const float* rows, float* prepared) const override {
    Normalize(span.count, rows, prepared);
  }
  void PrepareQueries(const CallView& /*call*/, const RowSpan& span,
                      const double* rows, double* prepared) const override {
    Normalize(span.count, rows, prepared);
  }
  void PrepareKeys(const CallView& /*call*/, const RowSpan& span,
                   const float* rows, float* prepared) const override {
    Normalize(span.count, rows, prepared);
  }
  void PrepareKeys(const CallView& /*call*/, const RowSpan& span,
                   const double* rows, double* prepared) const override {
    Normalize(span.count, rows, prepared);
  }
  void QueriesBackward(const CallView& /*call*/, const RowSpan& span,
                       const PreparedGradient& gradient,
                       const GradientSink& /*sink*/) const override {
    NormalizeBackward(span.count, gradient);
  }
  void KeysBackward(const CallView& /*call*/, const RowSpan& span,
                    const PreparedGradient& gradient,
                    const GradientSink& /*sink*/) const override {
    NormalizeBackward(span.count, gradient);
  }

 private:
  template <typename T>
  double Norm(const T* row) const {
    double squares = 0;
    for (int64_t i = 0; i < width_; ++i) {
      squares += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    }
    return std::sqrt(squares);
  }
  template <typename T>
  void Normalize(int64_t count, const T* rows, T* prepared) const {
    for (int64_t r = 0; r < count; ++r) {
      const double factor = 1 / std::max(Norm(rows + r * width_), eps_);
      for (int64_t i = r * width_; i < (r + 1) * width_; ++i) {
        prepared[i] = static_cast<T>(static_cast<double>(rows[i]) * factor);
      }
    }
  }
  // y = x / n: dx = (g - y (g . y)) / n above the floor, g / eps below.
  void NormalizeBackward(int64_t count, const PreparedGradient& at) const {
    for (int64_t r = 0; r < count; ++r) {
      const double* x = at.rows + r * width_;
      const double* g = at.prepared_gradient + r * width_;
      const double norm = Norm(x);
      const double divisor = std::max(norm, eps_);
      double pull = 0;
      if (norm > eps_) {
        for (int64_t i = 0; i < width_; ++i) pull += g[i] * x[i] / divisor;
      }
      for (int64_t i = 0; i < width_; ++i) {
        at.gradient[r * width_ + i] = (g[i] - pull * x[i] / divisor) / divisor;
      }
    }
  }

  double eps_;
  int64_t width_;
};

absl::Status Validate(const ScoreSpec& spec, const Problem& problem,
                      absl::string_view score_field) {
  const auto& cosine = std::get<CosineScore>(spec);
  const std::string field = absl::StrCat(score_field, ".cosine");
  for (const absl::Status& status :
       {CheckEqualWidths(problem),
        CheckScale(cosine.scale, absl::StrCat(field, ".scale")),
        CheckLearnedScale(problem, cosine.learned_scale,
                          absl::StrCat(field, ".learned_scale"))}) {
    if (!status.ok()) return status;
  }
  if (std::isfinite(cosine.eps) && cosine.eps > 0) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".eps"), absl::StrCat(cosine.eps),
                    "a finite number above 0");
}

std::string Describe(const ScoreSpec& spec) {
  return std::get<CosineScore>(spec).learned_scale ? "cosine * learned"
                                                   : "cosine";
}

std::unique_ptr<Score> Make(const ScoreSpec& spec, const Problem& problem) {
  return std::make_unique<Cosine>(std::get<CosineScore>(spec),
                                  problem.shape.k_dim);
}

}  // namespace

ScoreEntry CosineScoreEntry() {
  return {"cosine", "scale * cos(q, k), with a learned scale if given",
          5,        Validate,
          Describe, Make};
}

}  // namespace attn
