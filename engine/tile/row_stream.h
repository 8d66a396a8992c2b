// Products of a few rows with many rows that are read once, in order, where
// they lie: what attention of a few queries to a long cache is made of.
//
// Each stored row is loaded once for up to four of the few, widened to float in
// registers, and fetched into the cache ahead of its turn. Bits depend on what
// the rows hold, on their number and on the machine's vectors, never on type,
// layout or alignment: rows that have been widened beforehand give the same.
// Thread-safe: pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/dtype.h"

namespace attn {

// Rows of elements that stand side by side. F32, F16, BF16 or I8.
struct RowStream {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  // Elements from one row to the next.
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t width = 0;
  // Where rows of the same stride are read after these; null: nowhere. They are
  // fetched ahead of their turn, and change no bit.
  const std::byte* next = nullptr;
};

// A few rows of floats.
struct FewRows {
  const float* data = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
};

// A few rows of bfloat16, as bits.
struct FewPairs {
  const uint16_t* data = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
};

// Stored rows are worked on by so many at a time, and so are floats of a row.
inline constexpr int64_t kStreamRows = 4;
inline constexpr int64_t kStreamFloats = 16;

constexpr int64_t WholeRows(int64_t rows) {
  return (rows + kStreamRows - 1) / kStreamRows * kStreamRows;
}
constexpr int64_t WholeFloats(int64_t width) {
  return (width + kStreamFloats - 1) / kStreamFloats * kStreamFloats;
}

// dots[r * dots_stride + j] = sum over c of few[r][c] * stream[j][c]. A row of
// `few` holds WholeFloats(width) floats, 0 from `width` on; a row of `dots`
// has room for WholeRows(stream.rows), what lies beyond is no result.
void DotStream(const FewRows& few, const RowStream& stream, float* dots,
               int64_t dots_stride);

// The same of rows that are bfloat16 on both sides, in half the multiply-adds.
// Only if HasPairDots(). A row of `few` holds WholePairs(width) elements, 0
// from `width` on. Numbers too small for a normal float count as 0.
void DotPairs(const FewPairs& few, const RowStream& stream, float* dots,
              int64_t dots_stride);
bool HasPairDots();
constexpr int64_t WholePairs(int64_t width) {
  return 2 * WholeFloats((width + 1) / 2);
}

// sums[r * sums_stride + c] += sum over j of weights[r][j] * stream[j][c]. A
// row of `weights` holds WholeRows(stream.rows) floats, 0 from stream.rows on;
// a row of `sums` has room for WholeFloats(width), what lies beyond is no
// result.
void AddStream(const FewRows& weights, const RowStream& stream, float* sums,
               int64_t sums_stride);

}  // namespace attn
