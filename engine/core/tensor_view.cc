#include "engine/core/tensor_view.h"

#include <utility>

namespace attn {

absl::InlinedVector<int64_t, kMaxRank> RowMajorStrides(const Shape& shape) {
  absl::InlinedVector<int64_t, kMaxRank> strides(
      static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

namespace {

template <typename View>
View Swapped(View view, int a, int b) {
  absl::InlinedVector<int64_t, kMaxRank> dims(view.shape.dims().begin(),
                                              view.shape.dims().end());
  std::swap(dims[static_cast<size_t>(a)], dims[static_cast<size_t>(b)]);
  std::swap(view.strides[static_cast<size_t>(a)],
            view.strides[static_cast<size_t>(b)]);
  // The extents were checked when the view was made.
  view.shape = *Shape::Create(dims, SizeOf(view.dtype), "shape");
  return view;
}

}  // namespace

TensorView TensorView::Dense(const void* data, DType dtype, Shape shape) {
  TensorView view;
  view.data = static_cast<const std::byte*>(data);
  view.dtype = dtype;
  view.strides = RowMajorStrides(shape);
  view.shape = std::move(shape);
  return view;
}

int64_t TensorView::byte_count() const {
  return shape.element_count() * static_cast<int64_t>(SizeOf(dtype));
}

TensorView TensorView::SwapAxes(int a, int b) const {
  return Swapped(*this, a, b);
}

MutableTensorView MutableTensorView::Dense(void* data, DType dtype,
                                           Shape shape) {
  MutableTensorView view;
  view.data = static_cast<std::byte*>(data);
  view.dtype = dtype;
  view.strides = RowMajorStrides(shape);
  view.shape = std::move(shape);
  return view;
}

int64_t MutableTensorView::byte_count() const {
  return shape.element_count() * static_cast<int64_t>(SizeOf(dtype));
}

MutableTensorView MutableTensorView::SwapAxes(int a, int b) const {
  return Swapped(*this, a, b);
}

}  // namespace attn
