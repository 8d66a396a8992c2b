#include "engine/projections/result_gradient.h"

#include <algorithm>

#include "engine/core/call_view.h"
#include "engine/kernels/head_rows.h"

namespace attn {

TensorView ColumnsOf(const TensorView& tensor, int64_t first, int64_t count) {
  TensorView view = tensor;
  view.shape = {tensor.shape[0], tensor.shape[1], tensor.shape[2], count};
  if (view.data != nullptr) {
    view.data +=
        first * tensor.strides[3] * static_cast<int64_t>(SizeOf(tensor.dtype));
  }
  return view;
}

template <typename T>
void ResultGradient::Load(const KernelCall& call, const RowsAndColumns& part,
                          T* to) const {
  int64_t valid = part.rows;
  if (source_.of_output_gradient()) {
    const int64_t length = CallView{shape_, *call.args}.q_length(part.batch);
    valid = std::clamp<int64_t>(length - part.row, 0, part.rows);
  }
  const TensorView view =
      ColumnsOf(source_.View(call), part.column, part.columns);
  PaddedRows(view, part.batch, 0).Load(part.row, valid, to);
  std::fill(to + valid * part.columns, to + part.rows * part.columns, T{0});
}

template void ResultGradient::Load(const KernelCall&, const RowsAndColumns&,
                                   float*) const;
template void ResultGradient::Load(const KernelCall&, const RowsAndColumns&,
                                   double*) const;

}  // namespace attn
