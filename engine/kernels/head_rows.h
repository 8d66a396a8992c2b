// Rows of one head of a tensor of any layout and type.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/core/kv_blocks.h"
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

// Rows of one head of K or V that lie in blocks, side by side in each.
struct RowsInBlocks {
  const std::byte* const* blocks = nullptr;
  // Rows of a block.
  int64_t tokens = 0;
  // Bytes from the beginning of a block to the head's first row, and to the
  // scale of that; -1: there are no scales.
  int64_t offset = 0;
  int64_t scale_offset = -1;
};

// Borrows the tensor. Of q, k and v: see QueryRows() and its like below, which
// know of offsets and of quantized keys. Thread-safe: const.
class HeadRows {
 public:
  HeadRows(const TensorView& tensor, const RowPlace& place,
           const RowScales& scales = {});
  HeadRows(DType dtype, int64_t width, const RowsInBlocks& blocks);

  // Elements of a row.
  int64_t width() const { return width_; }
  // Whether a matrix product can read the rows as they stand.
  bool is_matrix() const { return is_matrix_; }
  // The rows from `row` on, if is_matrix().
  ConstMatrix MatrixFrom(int64_t row) const;

  // Whether the rows from `row` on can be streamed as they are stored: elements
  // side by side, of a type that products widen, runs of whole steps.
  bool is_stream(int64_t row) const;
  // Calls visit(begin, stream) for each run of rows that lie at one distance,
  // which begins `begin` rows behind `row`.
  template <typename Visit>
  void ForEachStream(int64_t row, int64_t count, Visit visit) const {
    ForEachRun(
        row, count, [&](int64_t begin, int64_t rows, const std::byte* from) {
          const int64_t end = begin + rows;
          visit(begin, RowStream{from, dtype_, row_stride_, rows, width_,
                                 end < count ? RowAt(row + end) : nullptr});
        });
  }
  // What the rows are to be multiplied by.
  bool has_scales() const {
    return scales_.data != nullptr || blocks_.scale_offset >= 0;
  }
  // Whether that is one number for all rows.
  bool has_one_scale() const {
    return scales_.data != nullptr && scales_.stride == 0;
  }
  void LoadScales(int64_t row, int64_t count, float* to) const;
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
  const std::byte* RowAt(int64_t row) const;
  const std::byte* ScaleAt(int64_t row) const;
  // Calls visit(begin, rows, address of the first) for each run.
  template <typename Visit>
  void ForEachRun(int64_t row, int64_t count, Visit visit) const {
    if (blocks_.blocks == nullptr) return visit(int64_t{0}, count, RowAt(row));
    for (int64_t begin = 0; begin < count;) {
      const int64_t rows = std::min(
          count - begin, blocks_.tokens - (row + begin) % blocks_.tokens);
      visit(begin, rows, RowAt(row + begin));
      begin += rows;
    }
  }

  const std::byte* data_ = nullptr;
  DType dtype_;
  int64_t element_bytes_;
  int64_t width_;
  int64_t row_stride_;
  int64_t element_stride_;
  bool is_matrix_ = false;
  RowScales scales_;
  RowsInBlocks blocks_;
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
