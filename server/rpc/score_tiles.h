// Scores pooled into tiles.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/core/shape.h"
#include "engine/core/tensor_view.h"
#include "proto/codec/schema.h"

namespace attn {

// How a tile becomes one number.
enum class TilePooling : uint8_t {
  kMean = 1,
  kMax = 2,
  kMin = 3,
  kSum = 4,
};

// Tiles from the corner of a [B, H, Sq, Sk] tensor on; those at the far edges
// may be smaller. A value; thread-compatible.
struct ScoreTiling {
  int64_t query_tile = 1;
  int64_t key_tile = 1;
  TilePooling pooling = TilePooling::kMean;

  // Of the pooled tensor.
  Shape ShapeOver(const Shape& scores) const;
};

// INVALID_ARGUMENT names "tiles.query_tile", "tiles.key_tile" or
// "tiles.pooling".
absl::StatusOr<ScoreTiling> DecodeTiling(const v1::InspectTiles& tiles);

// Pools the keys that are not -infinity in `masked_logits`; a tile without one
// is NaN, or 0 for kSum. `scores`, `masked_logits` and `pooled` are row-major,
// the first two of one shape, all F32 or all F64. Sums in double, rows first. A
// NaN among the keys makes its tile NaN.
void PoolScores(const ScoreTiling& tiling, const TensorView& scores,
                const TensorView& masked_logits,
                const MutableTensorView& pooled);

}  // namespace attn
