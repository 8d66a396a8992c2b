// w . [q; k; q * k] + bias (Seo et al. 2017, section 2), w = [a; b; c].
// Prepared rows are [c * q, a . q + bias, 1] and [k, 1, b . k].
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/scores/members.h"
#include "engine/scores/product_score.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

class Trilinear final : public ProductScore {
 public:
  Trilinear(const TrilinearScore& spec, int64_t dim)
      : ProductScore(1, std::nullopt), spec_(spec), dim_(dim) {}

  int64_t prepared_width() const override { return dim_ + 2; }
  bool prepares() const override { return true; }

  void PrepareQueries(const CallView& call, const RowSpan& span,
                      const float* rows, float* prepared) const override {
    Queries(call, span, rows, prepared);
  }
  void PrepareQueries(const CallView& call, const RowSpan& span,
                      const double* rows, double* prepared) const override {
    Queries(call, span, rows, prepared);
  }
  void PrepareKeys(const CallView& call, const RowSpan& span, const float* rows,
                   float* prepared) const override {
    Keys(call, span, rows, prepared);
  }
  void PrepareKeys(const CallView& call, const RowSpan& span,
                   const double* rows, double* prepared) const override {
    Keys(call, span, rows, prepared);
  }
  // The spec has no scale.
  double ScaleBackward(const CallView& /*call*/, int64_t /*head*/,
                       double /*gradient*/,
                       const GradientSink& /*sink*/) const override {
    return 0;
  }
  void QueriesBackward(const CallView& call, const RowSpan& span,
                       const PreparedGradient& at,
                       const GradientSink& sink) const override;
  void KeysBackward(const CallView& call, const RowSpan& span,
                    const PreparedGradient& at,
                    const GradientSink& sink) const override;

 private:
  std::vector<double> Weights(const CallView& call) const {
    std::vector<double> weights(static_cast<size_t>(3 * dim_));
    ParameterView(call.args.inputs[spec_.weight])
        .Load(0, 3 * dim_, weights.data());
    return weights;
  }
  template <typename T>
  void Queries(const CallView& call, const RowSpan& span, const T* rows,
               T* prepared) const {
    const std::vector<double> w = Weights(call);
    for (int64_t r = 0; r < span.count; ++r) {
      const T* q = rows + r * dim_;
      T* out = prepared + r * (dim_ + 2);
      double sum = spec_.bias;
      for (int64_t i = 0; i < dim_; ++i) {
        const auto x = static_cast<double>(q[i]);
        sum += w[static_cast<size_t>(i)] * x;
        out[i] = static_cast<T>(w[static_cast<size_t>(2 * dim_ + i)] * x);
      }
      out[dim_] = static_cast<T>(sum);
      out[dim_ + 1] = 1;
    }
  }
  template <typename T>
  void Keys(const CallView& call, const RowSpan& span, const T* rows,
            T* prepared) const {
    const std::vector<double> w = Weights(call);
    for (int64_t r = 0; r < span.count; ++r) {
      const T* k = rows + r * dim_;
      T* out = prepared + r * (dim_ + 2);
      double sum = 0;
      for (int64_t i = 0; i < dim_; ++i) {
        sum += w[static_cast<size_t>(dim_ + i)] * static_cast<double>(k[i]);
        out[i] = k[i];
      }
      out[dim_] = 1;
      out[dim_ + 1] = static_cast<T>(sum);
    }
  }

  TrilinearScore spec_;
  int64_t dim_;
};

void Trilinear::QueriesBackward(const CallView& call, const RowSpan& span,
                                const PreparedGradient& at,
                                const GradientSink& sink) const {
  const std::vector<double> w = Weights(call);
  double* of_weight = sink.Of(spec_.weight);
  for (int64_t r = 0; r < span.count; ++r) {
    const double* g = at.prepared_gradient + r * (dim_ + 2);
    for (int64_t i = 0; i < dim_; ++i) {
      const double x = at.rows[r * dim_ + i];
      at.gradient[r * dim_ + i] = g[i] * w[static_cast<size_t>(2 * dim_ + i)] +
                                  g[dim_] * w[static_cast<size_t>(i)];
      if (of_weight == nullptr) continue;
      of_weight[i] += g[dim_] * x;
      of_weight[2 * dim_ + i] += g[i] * x;
    }
  }
}

void Trilinear::KeysBackward(const CallView& call, const RowSpan& span,
                             const PreparedGradient& at,
                             const GradientSink& sink) const {
  const std::vector<double> w = Weights(call);
  double* of_weight = sink.Of(spec_.weight);
  for (int64_t r = 0; r < span.count; ++r) {
    const double* g = at.prepared_gradient + r * (dim_ + 2);
    for (int64_t i = 0; i < dim_; ++i) {
      at.gradient[r * dim_ + i] =
          g[i] + g[dim_ + 1] * w[static_cast<size_t>(dim_ + i)];
      if (of_weight == nullptr) continue;
      of_weight[dim_ + i] += g[dim_ + 1] * at.rows[r * dim_ + i];
    }
  }
}

absl::Status Validate(const ScoreSpec& spec, const Problem& problem,
                      absl::string_view score_field) {
  const auto& trilinear = std::get<TrilinearScore>(spec);
  const std::string field = absl::StrCat(score_field, ".trilinear");
  if (!std::isfinite(trilinear.bias)) {
    return FieldError(absl::StrCat(field, ".bias"),
                      absl::StrCat(trilinear.bias), "a finite number");
  }
  absl::Status status = CheckEqualWidths(problem);
  if (!status.ok()) return status;
  return CheckParameter(problem, trilinear.weight,
                        {Shape{3 * problem.shape.k_dim}},
                        absl::StrCat(field, ".weight.input"));
}

std::string Describe(const ScoreSpec& /*spec*/) { return "trilinear"; }

std::unique_ptr<Score> Make(const ScoreSpec& spec, const Problem& problem) {
  return std::make_unique<Trilinear>(std::get<TrilinearScore>(spec),
                                     problem.shape.k_dim);
}

}  // namespace

ScoreEntry TrilinearScoreEntry() {
  return {"trilinear", "w . [q; k; q * k] + bias", 4, Validate, Describe, Make};
}

}  // namespace attn
