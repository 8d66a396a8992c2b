// Products of small row-major matrices that lie in the first caches: the
// micro-kernels of the tiled kernels.
//
// The widest vectors of this machine, chosen once at run time. Bits depend on
// the operands' content and extents (and on the machine's vectors), never on
// alignment. Thread-safe: pure.
#pragma once

#include <cstdint>

namespace attn {

// Columns of a product come in units of so many floats, whole vectors on every
// machine: b and c are read and written up to the next multiple.
inline constexpr int64_t kColumnUnit = 16;

inline constexpr int64_t RoundUpToColumnUnit(int64_t columns) {
  return (columns + kColumnUnit - 1) / kColumnUnit * kColumnUnit;
}

// Keys of a panel, see PackPanel().
inline constexpr int64_t kPanelKeys = 64;

// c [rows, columns] and a [rows, inner] times b [inner, columns], each with its
// elements from one row to the next.
struct TileProduct {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t inner = 0;
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
};

// c = a b
void MultiplyTile(const TileProduct& product);
// c = factors[row] c + a b
void ScaleAndMultiplyTile(const TileProduct& product, const float* factors);

// Rows [count, depth] of keys, `stride` elements apart, as a panel
// [depth][kPanelKeys]: the b of queries times keys. Columns beyond `count` are
// 0 up to the next unit, and then left as they are. `count` is at most
// kPanelKeys.
void PackPanel(const float* rows, int64_t stride, int64_t count, int64_t depth,
               float* panel);

}  // namespace attn
