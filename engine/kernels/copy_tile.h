// Copies of tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/tile/tile.h"

namespace attn {

// `to` has the extents of `from`; the strides may differ.
template <typename T>
void CopyTile(const Tile<T>& from, const Tile<T>& to) {
  for (int64_t r = 0; r < from.bounds.rows; ++r) {
    std::copy_n(from.Row(r), from.bounds.keys, to.Row(r));
  }
}

}  // namespace attn
