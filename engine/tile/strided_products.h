// Products as in tile_products.h, of a left operand that may be a transpose.
#pragma once

#include <cstdint>

#include "engine/tile/tile_products.h"

namespace attn {

// The product is [rows, columns]; its sums run over `inner`. Any may be 0.
struct ProductExtents {
  int64_t rows = 0;
  int64_t columns = 0;  // a multiple of kColumnUnit
  int64_t inner = 0;
};

// Element (r, i) is data[r * row_stride + i * inner_stride]: a matrix as it
// lies, or its transpose.
struct LeftOperand {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t inner_stride = 0;
};

// Row-major [inner, columns].
struct RightOperand {
  const float* data = nullptr;
  int64_t stride = 0;
};

// Row-major [rows, columns]: becomes factor * product, or has it added.
struct ProductTarget {
  float* data = nullptr;
  int64_t stride = 0;
  float factor = 1;
  bool adds = false;
};

// Each element's sum runs over `inner` in order, in f32, whatever the extents:
// its bits depend on its row and column alone (and on whether this machine's
// vectors fuse multiply and add). Fastest where the right operand stays in the
// nearest cache. Thread-safe: pure.
void MultiplyStrided(const ProductExtents& extents, const LeftOperand& left,
                     const RightOperand& right, const ProductTarget& target);

}  // namespace attn
