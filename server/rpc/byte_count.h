// Bytes, counted without overflow: they saturate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace attn {

inline constexpr int64_t kMaxByteCount = std::numeric_limits<int64_t>::max();

// a, b >= 0.
inline int64_t SaturatingProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMaxByteCount : product;
}

inline int64_t SaturatingSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMaxByteCount : sum;
}

inline int64_t SaturatingCast(size_t bytes) {
  return bytes > static_cast<size_t>(kMaxByteCount)
             ? kMaxByteCount
             : static_cast<int64_t>(bytes);
}

inline int64_t TensorBytes(const Shape& shape, DType dtype) {
  auto bytes = static_cast<int64_t>(SizeOf(dtype));
  for (const int64_t extent : shape.dims()) {
    bytes = SaturatingProduct(bytes, extent);
  }
  return bytes;
}

}  // namespace attn
