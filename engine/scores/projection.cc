#include "engine/scores/projection.h"

namespace attn {

void ProjectBackward(const CallView& call, const Projection& weight,
                     const RowSpan& span, const PreparedGradient& at,
                     int64_t stride, const GradientSink& sink) {
  const ParameterView view(call.args.inputs[weight.input]);
  double* of_weight = sink.Of(weight.input);
  std::vector<double> elements(
      static_cast<size_t>(weight.rows * weight.columns));
  view.Load(weight.offset, weight.rows * weight.columns, elements.data());
  for (int64_t r = 0; r < span.count; ++r) {
    const double* g = at.prepared_gradient + r * stride;
    for (int64_t i = 0; i < weight.rows; ++i) {
      const double x = at.rows[r * weight.rows + i];
      const int64_t row = i * weight.columns;
      double sum = 0;
      for (int64_t c = 0; c < weight.columns; ++c) {
        sum += g[c] * elements[static_cast<size_t>(row + c)];
        if (of_weight != nullptr)
          of_weight[weight.offset + row + c] += x * g[c];
      }
      at.gradient[r * weight.rows + i] = sum;
    }
  }
}

}  // namespace attn
