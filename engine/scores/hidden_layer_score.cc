#include "engine/scores/hidden_layer_score.h"

#include <algorithm>
#include <vector>

#include "engine/scores/activation.h"

namespace attn {
namespace {

class HiddenLayerScore final : public Score {
 public:
  HiddenLayerScore(const HiddenLayer& layer, const AttentionShape& shape)
      : layer_(layer), shape_(shape) {}

  int64_t prepared_width() const override { return layer_.width; }
  bool prepares() const override { return true; }
  bool is_dot() const override { return false; }
  double scale(const CallView& /*call*/, int64_t /*head*/) const override {
    return 1;
  }
  double static_scale() const override { return 1; }

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
  void Compute(const CallView& call, const float* q_rows, const float* k_rows,
               const Tile<float>& tile) const override {
    ComputeTile(call, q_rows, k_rows, tile);
  }
  void Compute(const CallView& call, const double* q_rows, const double* k_rows,
               const Tile<double>& tile) const override {
    ComputeTile(call, q_rows, k_rows, tile);
  }
  double Backward(const CallView& call, const ScoreRows& rows,
                  const Tile<double>& gradient,
                  const GradientSink& sink) const override;
  void QueriesBackward(const CallView& call, const RowSpan& span,
                       const PreparedGradient& gradient,
                       const GradientSink& sink) const override;
  void KeysBackward(const CallView& call, const RowSpan& span,
                    const PreparedGradient& gradient,
                    const GradientSink& sink) const override {
    SideBackward(call, layer_.key, shape_.k_dim, span, gradient, sink);
  }

 private:
  Projection WeightOf(const SideWeight& side, int64_t rows,
                      int64_t head) const {
    const int64_t slice = side.head_axis ? head * rows * layer_.width : 0;
    return {*side.input, side.offset + slice, rows, layer_.width};
  }
  template <typename T>
  void ProjectSide(const CallView& call, const SideWeight& side,
                   const RowSpan& span, const T* rows, T* prepared) const {
    const int64_t width = layer_.width;
    if (!side.input.has_value()) {
      std::copy_n(rows, span.count * width, prepared);
      return;
    }
    const int64_t dim = &side == &layer_.query ? shape_.q_dim : shape_.k_dim;
    Project(call, WeightOf(side, dim, span.head), span.count, rows, width,
            prepared);
  }
  template <typename T>
  void Queries(const CallView& call, const RowSpan& span, const T* rows,
               T* prepared) const {
    ProjectSide(call, layer_.query, span, rows, prepared);
    if (!layer_.query_bias.has_value()) return;
    const std::vector<double> bias =
        HeadVector(call, *layer_.query_bias, span.head);
    for (int64_t i = 0; i < span.count * layer_.width; ++i) {
      prepared[i] +=
          static_cast<T>(bias[static_cast<size_t>(i % layer_.width)]);
    }
  }
  template <typename T>
  void Keys(const CallView& call, const RowSpan& span, const T* rows,
            T* prepared) const {
    ProjectSide(call, layer_.key, span, rows, prepared);
  }
  // A head's slice of [a] or [Hq, a].
  std::vector<double> HeadVector(const CallView& call, uint32_t input,
                                 int64_t head) const {
    std::vector<double> values(static_cast<size_t>(layer_.width));
    const ParameterView view(call.args.inputs[input]);
    view.Load(view.HeadOffset(head, 1), layer_.width, values.data());
    return values;
  }
  template <typename T>
  void ComputeTile(const CallView& call, const T* q_rows, const T* k_rows,
                   const Tile<T>& tile) const {
    const std::vector<double> v = HeadVector(call, layer_.v, tile.bounds.head);
    const int64_t width = layer_.width;
    for (int64_t r = 0; r < tile.bounds.rows; ++r) {
      for (int64_t j = 0; j < tile.bounds.keys; ++j) {
        double sum = layer_.bias;
        for (int64_t i = 0; i < width; ++i) {
          const double x = static_cast<double>(q_rows[r * width + i]) +
                           static_cast<double>(k_rows[j * width + i]);
          sum += v[static_cast<size_t>(i)] * Activate(layer_.activation, x);
        }
        tile.Row(r)[j] = static_cast<T>(sum);
      }
    }
  }
  void SideBackward(const CallView& call, const SideWeight& side, int64_t dim,
                    const RowSpan& span, const PreparedGradient& gradient,
                    const GradientSink& sink) const {
    if (!side.input.has_value()) {
      std::copy_n(gradient.prepared_gradient, span.count * layer_.width,
                  gradient.gradient);
      return;
    }
    ProjectBackward(call, WeightOf(side, dim, span.head), span, gradient,
                    layer_.width, sink);
  }

  HiddenLayer layer_;
  AttentionShape shape_;
};

// s = v . f(q' + k'): dq' = dk' = ds v f'(q' + k'), dv = ds f(q' + k').
double HiddenLayerScore::Backward(const CallView& call, const ScoreRows& rows,
                                  const Tile<double>& gradient,
                                  const GradientSink& sink) const {
  const int64_t width = layer_.width;
  const int64_t head = gradient.bounds.head;
  const std::vector<double> v = HeadVector(call, layer_.v, head);
  double* of_v = sink.Of(layer_.v);
  if (of_v != nullptr) {
    of_v += ParameterView(call.args.inputs[layer_.v]).HeadOffset(head, 1);
  }
  for (int64_t r = 0; r < gradient.bounds.rows; ++r) {
    for (int64_t j = 0; j < gradient.bounds.keys; ++j) {
      const double ds = gradient.Row(r)[j];
      if (ds == 0) continue;
      for (int64_t i = 0; i < width; ++i) {
        const double x = rows.q[r * width + i] + rows.k[j * width + i];
        const double dx = ds * v[static_cast<size_t>(i)] *
                          ActivationSlope(layer_.activation, x);
        rows.q_gradient[r * width + i] += dx;
        rows.k_gradient[j * width + i] += dx;
        if (of_v != nullptr) of_v[i] += ds * Activate(layer_.activation, x);
      }
    }
  }
  return 0;
}

void HiddenLayerScore::QueriesBackward(const CallView& call,
                                       const RowSpan& span,
                                       const PreparedGradient& gradient,
                                       const GradientSink& sink) const {
  double* of_bias =
      layer_.query_bias.has_value() ? sink.Of(*layer_.query_bias) : nullptr;
  if (of_bias != nullptr) {
    const ParameterView view(call.args.inputs[*layer_.query_bias]);
    of_bias += view.HeadOffset(span.head, 1);
    for (int64_t i = 0; i < span.count * layer_.width; ++i) {
      of_bias[i % layer_.width] += gradient.prepared_gradient[i];
    }
  }
  SideBackward(call, layer_.query, shape_.q_dim, span, gradient, sink);
}

}  // namespace

std::unique_ptr<Score> MakeHiddenLayerScore(const HiddenLayer& layer,
                                            const AttentionShape& shape) {
  return std::make_unique<HiddenLayerScore>(layer, shape);
}

const char* ActivationName(Activation activation) {
  switch (activation) {
    case Activation::kTanh:
      return "tanh";
    case Activation::kRelu:
      return "relu";
    case Activation::kSigmoid:
      return "sigmoid";
    case Activation::kGelu:
      return "gelu";
    case Activation::kIdentity:
      return "identity";
  }
  return "?";
}

}  // namespace attn
