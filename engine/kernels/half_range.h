// Logits that binary16, in which other software keeps them, cannot hold.
#pragma once

#include <cstdint>

#include "engine/tile/tile.h"

namespace attn {

// The largest finite binary16 number.
inline constexpr double kMaxHalf = 65504;

// Whether a finite element is beyond +-kMaxHalf. A quick look at every row.
template <typename T>
bool ExceedsHalf(const Tile<T>& tile);

// Visible keys whose raw or final logit is finite and beyond +-kMaxHalf. The
// tiles have the same bounds; -infinity in `final_logits` marks what is
// excluded.
template <typename T>
int64_t CountBeyondHalf(const Tile<T>& raw, const Tile<T>& final_logits);

}  // namespace attn
