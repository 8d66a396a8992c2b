// How a bias that is cheap to lay out reaches a tile.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/tile/row_math.h"
#include "engine/tile/tile.h"

namespace attn {

// Lays the bias of each row out on the stack, a chunk at a time, by
// fill(row, key, count, T* out) with absolute row and key, and adds it.
template <typename T, typename Fill>
void AddInChunks(const Tile<T>& tile, const Fill& fill) {
  // A few vectors' worth: enough to hide the call, small enough for L1.
  constexpr int64_t kChunk = 256;
  T chunk[kChunk];
  const TileBounds& bounds = tile.bounds;
  for (int64_t r = 0; r < bounds.rows; ++r) {
    for (int64_t j = 0; j < bounds.keys; j += kChunk) {
      const int64_t count = std::min(kChunk, bounds.keys - j);
      fill(bounds.row_begin + r, bounds.key_begin + j, count, chunk);
      AddRow(tile.Row(r) + j, chunk, count);
    }
  }
}

}  // namespace attn
