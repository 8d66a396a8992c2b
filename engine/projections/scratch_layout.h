// Where the rows and sums of a projected call lie in its scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/problem.h"
#include "engine/projections/step.h"
#include "engine/runtime/arena.h"

namespace attn {

// Takes scratch piece by piece. Thread-compatible.
class ScratchLayout {
 public:
  // Rows are of the type that the call's layers compute in.
  explicit ScratchLayout(const Problem& problem) : dtype_(WideType(problem)) {}

  // F64 for a double call, else F32.
  static DType WideType(const Problem& problem) {
    return problem.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  }

  // [batch, 1, length, width], rows one after the other.
  RowSource Rows(int64_t batch, int64_t length, int64_t width) {
    RowSource rows;
    rows.offset = bytes_;
    rows.dtype = dtype_;
    rows.shape = {batch, 1, length, width};
    rows.row_stride = width;
    rows.batch_stride = length * width;
    Take(static_cast<size_t>(batch * length * width) * SizeOf(dtype_));
    return rows;
  }
  // `count` doubles; where they begin.
  size_t Sums(int64_t count) {
    const size_t offset = bytes_;
    Take(static_cast<size_t>(count) * sizeof(double));
    return offset;
  }
  size_t bytes() const { return bytes_; }

 private:
  void Take(size_t bytes) { bytes_ += Arena::Padded(bytes); }

  DType dtype_;
  size_t bytes_ = 0;
};

// Columns [from, from + width) of every row, as one of `heads` heads that lie
// `step` columns apart.
inline RowSource SplitRows(const RowSource& rows, int64_t heads, int64_t step,
                           int64_t from, int64_t width) {
  RowSource split = rows;
  split.offset += static_cast<size_t>(from) * SizeOf(rows.dtype);
  split.shape = {rows.shape[0], heads, rows.shape[2], width};
  split.head_stride = step;
  return split;
}

}  // namespace attn
