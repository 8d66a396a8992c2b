// Softmax times a Gaussian around a predicted position: local-p of Luong et al.
// 2015, section 3.2. Keys beyond the radius have weight 0; the product is not
// normalised again.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/core/row_place.h"
#include "engine/normalizers/members.h"
#include "engine/normalizers/softmax_row.h"
#include "engine/tile/convert.h"
#include "engine/tile/parameter_view.h"
#include "engine/tile/sigmoid.h"

namespace attn {
namespace {

class Local final : public RowNormalizer<Local> {
 public:
  static constexpr NormalizerKind kKind = NormalizerKind::kRowwise;
  static constexpr bool kSumsToOne = true;

  Local(const LocalNormalizer& spec, int64_t hidden)
      : spec_(spec), hidden_(hidden) {}

  template <typename T>
  void Weigh(const CallView& call, const RowAt& at, const RowRange<T>& range,
             T* row, int64_t count, RowStatistics* statistics) const {
    SoftmaxRow(row, count, range, {}, at, statistics);
    const double centre = CentreOf(Predict(call, at), range.visible);
    for (int64_t j = 0; j < count; ++j) {
      row[j] = static_cast<T>(static_cast<double>(row[j]) *
                              Window(at.key_begin + j, centre));
    }
    DescribeWeights(row, count, at, statistics);
  }
  // w = p g with the softmax p and the window g, which does not depend on the
  // logits: dp = g dw, and back through the softmax.
  void BackwardRow(const CallView& call, const RowAt& at, const ForwardRow& row,
                   double* gradient, const GradientSink& /*sink*/) const {
    const double centre =
        CentreOf(Predict(call, at), row.statistics->visible_keys);
    double sum = 0;
    for (int64_t j = 0; j < row.count; ++j) {
      const double p = SoftmaxOf(row, j);
      gradient[j] = p == 0 ? 0 : gradient[j] * Window(at.key_begin + j, centre);
      sum += p * gradient[j];
    }
    for (int64_t j = 0; j < row.count; ++j) {
      gradient[j] = SoftmaxOf(row, j) * (gradient[j] - sum);
    }
  }

  bool reads_queries() const override { return true; }
  // With the centre c = n sigmoid(u), u = v . tanh(q W): dc = sum dw w (j - c)
  // / deviation^2. The window's edge moves with c too: almost everywhere no key
  // lies on it, and it adds nothing.
  void QueriesBackward(const CallView& call, const NormalizedTile& forward,
                       const Tile<double>& gradient, double* of_queries,
                       const GradientSink& sink) const override {
    const TileBounds& b = gradient.bounds;
    const double deviation = Deviation();
    for (int64_t r = 0; r < b.rows; ++r) {
      const int64_t visible = forward.statistics[r].visible_keys;
      if (visible == 0) continue;
      const RowAt at{b.batch, b.head, b.row_begin + r, b.key_begin};
      const Prediction prediction = Predict(call, at);
      const double centre = CentreOf(prediction, visible);
      double of_centre = 0;
      for (int64_t j = 0; j < b.keys; ++j) {
        const double weight = forward.weights.Row(r)[j];
        if (weight == 0) continue;
        const double distance = static_cast<double>(b.key_begin + j) - centre;
        of_centre += gradient.Row(r)[j] * weight * distance;
      }
      const double of_sum = of_centre / (deviation * deviation) *
                            static_cast<double>(visible) *
                            SigmoidSlope(prediction.sum);
      PredictBackward(call, prediction, of_sum,
                      of_queries + r * call.shape.q_dim, sink);
    }
  }

 private:
  // On the way to the centre: q, q W, and the product of its tanh with v.
  struct Prediction {
    std::vector<double> query;
    std::vector<double> hidden;
    double sum = 0;
  };

  double Deviation() const { return spec_.radius / 2; }
  double Window(int64_t key, double centre) const {
    const double distance = static_cast<double>(key) - centre;
    if (std::abs(distance) > spec_.radius) return 0;
    return std::exp(-distance * distance / (2 * Deviation() * Deviation()));
  }
  static double SoftmaxOf(const ForwardRow& row, int64_t j) {
    return std::exp(row.logits[j] - row.statistics->lse);
  }
  static double CentreOf(const Prediction& prediction, int64_t visible) {
    return static_cast<double>(visible) * SigmoidOf(prediction.sum);
  }
  Prediction Predict(const CallView& call, const RowAt& at) const {
    const int64_t dim = call.shape.q_dim;
    const TensorView& q = call.args.q;
    Prediction result;
    result.query.resize(static_cast<size_t>(dim));
    const RowPlace place = PlaceOf(q, call.args.q_offsets, at.batch, at.head);
    const int64_t offset = place.first + at.row * place.row_stride;
    LoadElements(q.data + offset * static_cast<int64_t>(SizeOf(q.dtype)),
                 q.dtype, place.element_stride, dim, result.query.data());
    const ParameterView weight(call.args.inputs[spec_.weight]);
    const ParameterView v(call.args.inputs[spec_.v]);
    for (int64_t a = 0; a < hidden_; ++a) {
      double x = 0;
      for (int64_t i = 0; i < dim; ++i) {
        x += result.query[static_cast<size_t>(i)] * weight.At(i * hidden_ + a);
      }
      result.hidden.push_back(x);
      result.sum += v.At(a) * std::tanh(x);
    }
    return result;
  }
  void PredictBackward(const CallView& call, const Prediction& prediction,
                       double of_sum, double* of_query,
                       const GradientSink& sink) const {
    const ParameterView weight(call.args.inputs[spec_.weight]);
    const ParameterView v(call.args.inputs[spec_.v]);
    double* of_weight = sink.Of(spec_.weight);
    double* of_v = sink.Of(spec_.v);
    for (int64_t a = 0; a < hidden_; ++a) {
      const double x = prediction.hidden[static_cast<size_t>(a)];
      if (of_v != nullptr) of_v[a] += of_sum * std::tanh(x);
      const double of_x = of_sum * v.At(a) * TanhSlope(x);
      for (int64_t i = 0; i < call.shape.q_dim; ++i) {
        const int64_t at = i * hidden_ + a;
        of_query[i] += of_x * weight.At(at);
        if (of_weight == nullptr) continue;
        of_weight[at] += of_x * prediction.query[static_cast<size_t>(i)];
      }
    }
  }

  LocalNormalizer spec_;
  int64_t hidden_;
};

absl::Status Validate(const NormalizerSpec& spec, const Problem& problem,
                      absl::string_view normalizer_field) {
  const auto& local = std::get<LocalNormalizer>(spec);
  const std::string field = absl::StrCat(normalizer_field, ".local");
  if (!std::isfinite(local.radius) || local.radius <= 0) {
    return FieldError(absl::StrCat(field, ".radius"),
                      absl::StrCat(local.radius), "a finite number above 0");
  }
  int64_t hidden = 1;
  if (local.v < problem.inputs.size() &&
      problem.inputs[local.v].shape.rank() == 1) {
    hidden = problem.inputs[local.v].shape[0];
  }
  absl::Status status = CheckParameter(problem, local.v, {Shape{hidden}},
                                       absl::StrCat(field, ".v.input"));
  if (!status.ok()) return status;
  return CheckParameter(problem, local.weight,
                        {Shape{problem.shape.q_dim, hidden}},
                        absl::StrCat(field, ".weight.input"));
}

std::string Describe(const NormalizerSpec& spec) {
  return absl::StrCat("local(", std::get<LocalNormalizer>(spec).radius, ")");
}

std::unique_ptr<Normalizer> Make(const NormalizerSpec& spec,
                                 const Problem& problem) {
  const auto& local = std::get<LocalNormalizer>(spec);
  return std::make_unique<Local>(local, problem.inputs[local.v].shape[0]);
}

}  // namespace

NormalizerEntry LocalNormalizerEntry() {
  return {"local",  "softmax times a Gaussian around a predicted key",
          8,        Validate,
          Describe, Make};
}

}  // namespace attn
