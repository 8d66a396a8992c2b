// Rows of one head of a [B, H, S, D] tensor of any layout and type.
#pragma once

#include <cstdint>

#include "engine/core/tensor_view.h"
#include "engine/kernels/onednn_matmul.h"

namespace attn {

// Borrows the tensor. Thread-safe: const.
class HeadRows {
 public:
  HeadRows(const TensorView& tensor, int64_t batch, int64_t head);

  // Elements of a row.
  int64_t width() const { return width_; }
  // Whether the rows are f32 that a matrix product can read as they stand.
  bool is_matrix() const;
  // The rows from `row` on, if is_matrix().
  ConstMatrix MatrixFrom(int64_t row) const;

  // Rows [row, row + count) to `to`, one after the other; T is float or double.
  template <typename T>
  void Load(int64_t row, int64_t count, T* to) const;

 private:
  const std::byte* data_;
  DType dtype_;
  int64_t element_bytes_;
  int64_t width_;
  int64_t row_stride_;
  int64_t element_stride_;
};

// How many elements of `rows` [count, width] are infinite or NaN, by way of
// `scratch`, which holds one row.
template <typename T>
int64_t CountNonFiniteRows(const HeadRows& rows, int64_t row, int64_t count,
                           T* scratch);

}  // namespace attn
