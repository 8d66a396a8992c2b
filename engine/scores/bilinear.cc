// scale * (q W k + bias): "general" of Luong et al. 2015, section 3.1. Prepared
// rows are [q W, bias] and [k, 1].
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/scores/members.h"
#include "engine/scores/product_score.h"
#include "engine/scores/projection.h"

namespace attn {
namespace {

class Bilinear final : public ProductScore {
 public:
  Bilinear(const BilinearScore& spec, const AttentionShape& shape)
      : ProductScore(spec.scale.value_or(1), std::nullopt),
        spec_(spec),
        shape_(shape) {}

  int64_t prepared_width() const override { return shape_.k_dim + 1; }
  bool prepares() const override { return true; }

  void PrepareQueries(const CallView& call, const RowSpan& span,
                      const float* rows, float* prepared) const override {
    Queries(call, span, rows, prepared);
  }
  void PrepareQueries(const CallView& call, const RowSpan& span,
                      const double* rows, double* prepared) const override {
    Queries(call, span, rows, prepared);
  }
  void PrepareKeys(const CallView& /*call*/, const RowSpan& span,
                   const float* rows, float* prepared) const override {
    Keys(span, rows, prepared);
  }
  void PrepareKeys(const CallView& /*call*/, const RowSpan& span,
                   const double* rows, double* prepared) const override {
    Keys(span, rows, prepared);
  }
  void QueriesBackward(const CallView& call, const RowSpan& span,
                       const PreparedGradient& gradient,
                       const GradientSink& sink) const override {
    ProjectBackward(call, WeightOf(call, span.head), span, gradient,
                    prepared_width(), sink);
  }
  void KeysBackward(const CallView& /*call*/, const RowSpan& span,
                    const PreparedGradient& gradient,
                    const GradientSink& /*sink*/) const override {
    const int64_t width = shape_.k_dim;
    for (int64_t r = 0; r < span.count; ++r) {
      std::copy_n(gradient.prepared_gradient + r * (width + 1), width,
                  gradient.gradient + r * width);
    }
  }

 private:
  Projection WeightOf(const CallView& call, int64_t head) const {
    const ParameterView weight(call.args.inputs[spec_.weight]);
    return {spec_.weight, weight.HeadOffset(head, 2), shape_.q_dim,
            shape_.k_dim};
  }
  template <typename T>
  void Queries(const CallView& call, const RowSpan& span, const T* rows,
               T* prepared) const {
    const int64_t stride = prepared_width();
    Project(call, WeightOf(call, span.head), span.count, rows, stride,
            prepared);
    for (int64_t r = 0; r < span.count; ++r) {
      prepared[r * stride + shape_.k_dim] = static_cast<T>(spec_.bias);
    }
  }
  template <typename T>
  void Keys(const RowSpan& span, const T* rows, T* prepared) const {
    const int64_t width = shape_.k_dim;
    for (int64_t r = 0; r < span.count; ++r) {
      T* row = prepared + r * (width + 1);
      std::copy_n(rows + r * width, width, row);
      row[width] = 1;
    }
  }

  BilinearScore spec_;
  AttentionShape shape_;
};

absl::Status Validate(const ScoreSpec& spec, const Problem& problem,
                      absl::string_view score_field) {
  const auto& bilinear = std::get<BilinearScore>(spec);
  const std::string field = absl::StrCat(score_field, ".bilinear");
  const AttentionShape& shape = problem.shape;
  if (!std::isfinite(bilinear.bias)) {
    return FieldError(absl::StrCat(field, ".bias"), absl::StrCat(bilinear.bias),
                      "a finite number");
  }
  absl::Status status =
      CheckScale(bilinear.scale, absl::StrCat(field, ".scale"));
  if (!status.ok()) return status;
  return CheckParameter(problem, bilinear.weight,
                        {Shape{shape.q_dim, shape.k_dim},
                         Shape{shape.q_heads, shape.q_dim, shape.k_dim}},
                        absl::StrCat(field, ".weight.input"));
}

std::string Describe(const ScoreSpec& /*spec*/) { return "bilinear"; }

std::unique_ptr<Score> Make(const ScoreSpec& spec, const Problem& problem) {
  return std::make_unique<Bilinear>(std::get<BilinearScore>(spec),
                                    problem.shape);
}

}  // namespace

ScoreEntry BilinearScoreEntry() {
  return {"bilinear", "scale * (q W k + bias), Luong's general score",
          1,          Validate,
          Describe,   Make};
}

}  // namespace attn
