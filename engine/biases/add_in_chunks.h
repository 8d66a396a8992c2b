// How a bias that is cheap to lay out reaches a tile.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/tile/row_math.h"
#include "engine/tile/tile.h"

namespace attn {

// Elements laid out at a time: enough to hide the calls, few enough for L1.
inline constexpr int64_t kBiasChunk = 256;

// Lays the bias of each row out on the stack, a chunk at a time, by
// fill(row, key, count, T* out) with absolute row and key, and adds it.
template <typename T, typename Fill>
void AddInChunks(const Tile<T>& tile, const Fill& fill) {
  T chunk[kBiasChunk];
  const TileBounds& bounds = tile.bounds;
  for (int64_t r = 0; r < bounds.rows; ++r) {
    for (int64_t j = 0; j < bounds.keys; j += kBiasChunk) {
      const int64_t count = std::min(kBiasChunk, bounds.keys - j);
      fill(bounds.row_begin + r, bounds.key_begin + j, count, chunk);
      AddRow(tile.Row(r) + j, chunk, count);
    }
  }
}

}  // namespace attn
