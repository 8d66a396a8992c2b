// Tables that a program reads by name.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/core/problem.h"
#include "engine/core/tensor_view.h"

namespace attn {

// Names, ranks and types of `spec.tables`; an error names
// "`field`.tables[i]...".
absl::Status CheckProgramTables(const ProgramSpec& spec, const Problem& problem,
                                absl::string_view field);

// One table of a call. Indices are rounded down; the element at an index that
// is out of range is NaN. BOOL reads as 0 and 1. Thread-safe: const.
class TableReader {
 public:
  // Borrows a tensor of rank 1 or 2.
  explicit TableReader(const TensorView& tensor)
      : tensor_(&tensor),
        row_stride_(tensor.strides[0]),
        column_stride_(rank() == 1 ? 0 : tensor.strides[1]) {}

  // As many indices as an element takes.
  int rank() const { return tensor_->shape.rank(); }
  // out[i] = table[indices[0][i], indices[1][i]]; `out` may be one of them.
  template <typename T>
  void Gather(const T* const* indices, int64_t count, T* out) const;
  // Of an element in row-major order; -1 if it is out of range.
  int64_t FlatIndex(double row, double column) const;

 private:
  template <typename T>
  void GatherOffsets(const int64_t* offsets, int64_t count, T* out) const;

  const TensorView* tensor_;
  int64_t row_stride_;
  int64_t column_stride_;
};

}  // namespace attn
