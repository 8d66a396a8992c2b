// Borrowed tensors: bytes that somebody else owns, with a type and a shape.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace attn {

// Row-major strides in elements.
absl::InlinedVector<int64_t, kMaxRank> RowMajorStrides(const Shape& shape);

// A read-only tensor. `data` may be unaligned only if it came from outside the
// server; the server's own buffers are 64-byte aligned. Null data with a shape
// stands for a tensor that is described but not present (as in Plan).
// A value that owns nothing; thread-compatible.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  // In elements, one for each axis.
  absl::InlinedVector<int64_t, kMaxRank> strides;

  // A row-major tensor.
  static TensorView Dense(const void* data, DType dtype, Shape shape);

  // Bytes of product(shape) elements.
  int64_t byte_count() const;
  // The same elements with two axes swapped.
  TensorView SwapAxes(int a, int b) const;
};

// A tensor to write. Null data: not wanted.
struct MutableTensorView {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  absl::InlinedVector<int64_t, kMaxRank> strides;

  static MutableTensorView Dense(void* data, DType dtype, Shape shape);

  bool wanted() const { return data != nullptr; }
  int64_t byte_count() const;
  MutableTensorView SwapAxes(int a, int b) const;
};

}  // namespace attn
