// Rows times a weight, as scores prepare them.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/scores/score.h"
#include "engine/tile/parameter_view.h"

namespace attn {

// A weight [rows, columns] as it lies in a parameter from `offset` on.
struct Projection {
  uint32_t input = 0;
  int64_t offset = 0;
  int64_t rows = 0;
  int64_t columns = 0;
};

// out[r] = in[r] W for `count` rows of width W.rows; out has `out_stride`
// elements from row to row. Accumulates in double. T is float or double.
template <typename T>
void Project(const CallView& call, const Projection& weight, int64_t count,
             const T* in, int64_t out_stride, T* out) {
  const ParameterView view(call.args.inputs[weight.input]);
  std::vector<double> elements(
      static_cast<size_t>(weight.rows * weight.columns));
  view.Load(weight.offset, weight.rows * weight.columns, elements.data());
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < weight.columns; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < weight.rows; ++i) {
        sum += static_cast<double>(in[r * weight.rows + i]) *
               elements[static_cast<size_t>(i * weight.columns + c)];
      }
      out[r * out_stride + c] = static_cast<T>(sum);
    }
  }
}

// The way back: rows' gradient = g W^T, and W's += rows^T g. `gradient` has
// `stride` elements from row to row.
void ProjectBackward(const CallView& call, const Projection& weight,
                     const RowSpan& span, const PreparedGradient& at,
                     int64_t stride, const GradientSink& sink);

}  // namespace attn
