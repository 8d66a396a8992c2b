#include "engine/kernels/head_rows.h"

#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"

namespace attn {

HeadRows::HeadRows(const TensorView& tensor, int64_t batch, int64_t head)
    : data_(tensor.data),
      dtype_(tensor.dtype),
      element_bytes_(static_cast<int64_t>(SizeOf(tensor.dtype))),
      width_(tensor.shape[3]),
      row_stride_(tensor.strides[2]),
      element_stride_(tensor.strides[3]) {
  if (data_ == nullptr) return;  // no element: nothing to point into
  data_ +=
      element_bytes_ * (batch * tensor.strides[0] + head * tensor.strides[1]);
}

bool HeadRows::is_matrix() const {
  return dtype_ == DType::kF32 && element_stride_ == 1 && row_stride_ >= width_;
}

ConstMatrix HeadRows::MatrixFrom(int64_t row) const {
  if (data_ == nullptr) return {nullptr, row_stride_};
  return {reinterpret_cast<const float*>(data_) + row * row_stride_,
          row_stride_};
}

template <typename T>
void HeadRows::Load(int64_t row, int64_t count, T* to) const {
  if (count == 0 || width_ == 0) return;
  const std::byte* from = data_ + element_bytes_ * row * row_stride_;
  if (element_stride_ == 1 && row_stride_ == width_) {
    LoadElements(from, dtype_, 1, count * width_, to);
    return;
  }
  for (int64_t r = 0; r < count; ++r) {
    LoadElements(from, dtype_, element_stride_, width_, to);
    from += element_bytes_ * row_stride_;
    to += width_;
  }
}

template <typename T>
int64_t CountNonFiniteRows(const HeadRows& rows, int64_t row, int64_t count,
                           T* scratch) {
  int64_t found = 0;
  for (int64_t r = row; r < row + count; ++r) {
    rows.Load(r, 1, scratch);
    found += CountNonFinite(scratch, rows.width());
  }
  return found;
}

template void HeadRows::Load(int64_t, int64_t, float*) const;
template void HeadRows::Load(int64_t, int64_t, double*) const;
template int64_t CountNonFiniteRows(const HeadRows&, int64_t, int64_t, float*);
template int64_t CountNonFiniteRows(const HeadRows&, int64_t, int64_t, double*);

}  // namespace attn
