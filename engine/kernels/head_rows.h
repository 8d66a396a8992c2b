// Rows of one head of a tensor of any layout and type.
#pragma once

#include <cstdint>

#include "engine/core/row_place.h"
#include "engine/core/tensor_view.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/onednn_matmul.h"
#include "engine/tile/row_stream.h"

namespace attn {

// F32 numbers that rows are multiplied by: row r by data[r * stride]. Null: 1.
struct RowScales {
  const std::byte* data = nullptr;
  int64_t stride = 0;
};

// Borrows the tensor. Of q, k and v: see QueryRows() and its like below, which
// know of offsets and of quantized keys. Thread-safe: const.
class HeadRows {
 public:
  HeadRows(const TensorView& tensor, const RowPlace& place,
           const RowScales& scales = {});

  // Elements of a row.
  int64_t width() const { return width_; }
  // Whether a matrix product can read the rows as they stand.
  bool is_matrix() const { return is_matrix_; }
  // The rows from `row` on, if is_matrix().
  ConstMatrix MatrixFrom(int64_t row) const;

  // The rows from `row` on as they are stored, if their elements stand side by
  // side and are of a type that can be streamed; and what they are to be
  // multiplied by.
  bool is_stream() const;
  RowStream StreamFrom(int64_t row, int64_t count) const;
  RowScales ScalesFrom(int64_t row) const;
  // The same rows without their scales.
  HeadRows Unscaled() const;

  // Rows [row, row + count): in place if possible, else copied to `scratch`.
  ConstMatrix Matrix(int64_t row, int64_t count, float* scratch) const;

  // Rows [row, row + count) to `to`, one after the other, times their scales; T
  // is float or double.
  template <typename T>
  void Load(int64_t row, int64_t count, T* to) const;

 private:
  // Whether an element may be read as what it is: tensors from outside may lie
  // anywhere, and their rows are copied then.
  bool IsAligned() const;
  template <typename T>
  void Scale(int64_t row, int64_t count, T* rows) const;

  const std::byte* data_;
  DType dtype_;
  int64_t element_bytes_;
  int64_t width_;
  int64_t row_stride_;
  int64_t element_stride_;
  bool is_matrix_;
  RowScales scales_;
};

// The rows of q, k and v of a call, padded or ragged; those of k and v as what
// their integers stand for if they are quantized.
HeadRows QueryRows(const KernelCall& call, int64_t batch, int64_t head);
HeadRows KeyRows(const KernelCall& call, int64_t batch, int64_t kv_head);
HeadRows ValueRows(const KernelCall& call, int64_t batch, int64_t kv_head);
// Those of a [B, H, S, D] tensor that belongs to the call.
HeadRows PaddedRows(const TensorView& tensor, int64_t batch, int64_t head);

// How many elements of `rows` [count, width] are infinite or NaN, by way of
// `scratch`, which holds one row.
template <typename T>
int64_t CountNonFiniteRows(const HeadRows& rows, int64_t row, int64_t count,
                           T* scratch);

}  // namespace attn
