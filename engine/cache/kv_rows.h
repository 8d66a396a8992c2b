// Rows of keys or values on their way into a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/core/dtype.h"

namespace attn {

// Changes rows of keys, [count, k_dim] one after the other, before they are
// stored: those of one KV head at positions first, first + 1, ... What becomes
// of a row must not depend on the others. Must not throw.
using PrepareKeys = std::function<void(int64_t kv_head, int64_t first,
                                       int64_t count, float* rows)>;

// Rows of one head of a tensor; strides in elements. Borrowed; a value.
struct KvRowSource {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t row_stride = 0;
  int64_t element_stride = 0;
};

// Rows of one head of a block, one after the other, and their scales if dtype
// is I8. Borrowed; a value.
struct KvRowTarget {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t width = 0;
  float* scales = nullptr;
};

// Where rows stand, for PrepareKeys. A value.
struct KvRowPlace {
  int64_t kv_head = 0;
  int64_t first = 0;
};

// Floats that WriteKvRows() needs in `wide` for rows of `width` elements: none
// unless a row is too wide for the stack.
int64_t WideRowFloats(int64_t width);

// Stores `count` rows, rounded to nearest even. Rows that need no change are
// copied as bytes. `prepare` may be empty. Allocates nothing.
//
// An I8 row is x / scale, rounded, with scale = max |x| / 127, or the float
// below it where 127 * scale would overflow; 1 for a row of zeros or of numbers
// so small that no float is their scale. A row that holds a NaN or an infinity
// has the scale NaN, so that all of it reads as NaN.
void WriteKvRows(const KvRowSource& from, int64_t count, const KvRowTarget& to,
                 const PrepareKeys& prepare, const KvRowPlace& place,
                 std::vector<float>& wide);

}  // namespace attn
