// QK-norm: each row of q and k by itself (Henry et al. 2020; Dehghani et al.
// 2023).
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/tile/parameter_view.h"
#include "engine/transforms/members.h"

namespace attn {
namespace {

class Norm final : public Transform {
 public:
  Norm(const NormTransform& spec, const AttentionShape& shape)
      : spec_(spec), shape_(shape) {}

  bool Applies(Side side) const override {
    return TargetCovers(spec_.target, side);
  }

  void Apply(const CallView& call, Side side, const RowSpan& span,
             float* rows) const override {
    Normalize(call, side, span, rows);
  }
  void Apply(const CallView& call, Side side, const RowSpan& span,
             double* rows) const override {
    Normalize(call, side, span, rows);
  }
  void Backward(const CallView& call, Side side, const RowSpan& span,
                const double* input, double* gradient,
                const GradientSink& sink) const override;

 private:
  const std::optional<uint32_t>& Weight(Side side) const {
    return side == Side::kQuery ? spec_.query_weight : spec_.key_weight;
  }
  int64_t Width(Side side) const {
    return side == Side::kQuery ? shape_.q_dim : shape_.k_dim;
  }
  double WeightAt(const CallView& call, Side side, int64_t head,
                  int64_t element) const {
    const std::optional<uint32_t>& input = Weight(side);
    if (!input.has_value()) return 1;
    const ParameterView weight(call.args.inputs[*input]);
    return weight.At(weight.HeadOffset(head, 1) + element);
  }
  // The factor that normalises a row, and whether it varies with the row: the
  // floor of an L2 norm does not.
  struct Factor {
    double value = 1;
    bool varies = true;
  };
  template <typename T>
  Factor FactorOf(const T* row, int64_t width) const {
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) {
      const auto x = static_cast<double>(row[i]);
      squares += x * x;
    }
    if (spec_.kind == NormKind::kRms) {
      const double mean = width == 0 ? 0 : squares / static_cast<double>(width);
      return {1 / std::sqrt(mean + spec_.eps), true};
    }
    const double norm = std::sqrt(squares);
    return norm > spec_.eps ? Factor{1 / norm, true}
                            : Factor{1 / spec_.eps, false};
  }
  template <typename T>
  void Normalize(const CallView& call, Side side, const RowSpan& span,
                 T* rows) const {
    const int64_t width = Width(side);
    for (int64_t r = 0; r < span.count; ++r) {
      T* row = rows + r * width;
      const Factor factor = FactorOf(row, width);
      for (int64_t i = 0; i < width; ++i) {
        row[i] = static_cast<T>(static_cast<double>(row[i]) * factor.value *
                                WeightAt(call, side, span.head, i));
      }
    }
  }

  NormTransform spec_;
  AttentionShape shape_;
};

// y = w x f with f = 1 / sqrt(x.x / n + eps) (n = 1, eps = 0 for L2):
// dx = f (w g) - f^3 x ((w g) . x) / n, dw = g x f.
void Norm::Backward(const CallView& call, Side side, const RowSpan& span,
                    const double* input, double* gradient,
                    const GradientSink& sink) const {
  const int64_t width = Width(side);
  const double n =
      spec_.kind == NormKind::kRms ? static_cast<double>(width) : 1;
  const std::optional<uint32_t>& weight = Weight(side);
  double* weight_gradient = weight.has_value() ? sink.Of(*weight) : nullptr;
  if (weight_gradient != nullptr) {
    const ParameterView view(call.args.inputs[*weight]);
    weight_gradient += view.HeadOffset(span.head, 1);
  }
  for (int64_t r = 0; r < span.count; ++r) {
    const double* x = input + r * width;
    double* g = gradient + r * width;
    const Factor factor = FactorOf(x, width);
    double product = 0;
    for (int64_t i = 0; i < width; ++i) {
      if (weight_gradient != nullptr) {
        weight_gradient[i] += g[i] * x[i] * factor.value;
      }
      g[i] *= WeightAt(call, side, span.head, i);
      product += g[i] * x[i];
    }
    const double pull =
        factor.varies ? std::pow(factor.value, 3) * product / n : 0;
    for (int64_t i = 0; i < width; ++i) {
      g[i] = factor.value * g[i] - pull * x[i];
    }
  }
}

absl::Status Validate(const TransformSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& norm = std::get<NormTransform>(spec);
  const std::string field = absl::StrCat(list_field, ".norm");
  const AttentionShape& shape = problem.shape;
  if (!std::isfinite(norm.eps) || norm.eps <= 0) {
    return FieldError(absl::StrCat(field, ".eps"), absl::StrCat(norm.eps),
                      "a finite number above 0");
  }
  if (norm.query_weight.has_value()) {
    absl::Status status =
        CheckParameter(problem, *norm.query_weight,
                       {Shape{shape.q_dim}, Shape{shape.q_heads, shape.q_dim}},
                       absl::StrCat(field, ".query_weight.input"));
    if (!status.ok()) return status;
  }
  if (!norm.key_weight.has_value()) return absl::OkStatus();
  return CheckParameter(
      problem, *norm.key_weight,
      {Shape{shape.k_dim}, Shape{shape.kv_heads, shape.k_dim}},
      absl::StrCat(field, ".key_weight.input"));
}

std::string Describe(const TransformSpec& spec) {
  const auto& norm = std::get<NormTransform>(spec);
  return absl::StrCat(TargetName(norm.target),
                      norm.kind == NormKind::kRms ? "rms_norm" : "l2_norm");
}

std::unique_ptr<Transform> Make(const TransformSpec& spec,
                                const Problem& problem) {
  return std::make_unique<Norm>(std::get<NormTransform>(spec), problem.shape);
}

}  // namespace

TransformEntry NormTransformEntry() {
  return {"norm",   "normalises each row of q and k, by L2 or RMS",
          1,        Validate,
          Describe, Make};
}

}  // namespace attn
