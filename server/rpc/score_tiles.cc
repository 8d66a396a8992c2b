#include "server/rpc/score_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/enum_names.h"

namespace attn {
namespace {

// One tile of a [Sq, Sk] matrix.
struct TileAt {
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t key_begin = 0;
  int64_t key_end = 0;
};

int64_t TilesOver(int64_t extent, int64_t tile) {
  return extent / tile + (extent % tile == 0 ? 0 : 1);
}

// Calls `visit` with each visible element of a tile.
template <typename T, typename Visit>
void ForEachVisible(const T* scores, const T* masked_logits, int64_t keys,
                    const TileAt& tile, Visit visit) {
  constexpr T kExcluded = -std::numeric_limits<T>::infinity();
  for (int64_t i = tile.row_begin; i < tile.row_end; ++i) {
    for (int64_t j = tile.key_begin; j < tile.key_end; ++j) {
      const int64_t at = i * keys + j;
      if (masked_logits[at] != kExcluded) {
        visit(static_cast<double>(scores[at]));
      }
    }
  }
}

template <typename T>
double PoolTile(TilePooling pooling, const T* scores, const T* masked_logits,
                int64_t keys, const TileAt& tile) {
  double sum = 0;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  int64_t visible = 0;
  ForEachVisible(scores, masked_logits, keys, tile, [&](double x) {
    ++visible;
    sum += x;
    low = std::isnan(x) || std::isnan(low) ? x + low : std::min(low, x);
    high = std::isnan(x) || std::isnan(high) ? x + high : std::max(high, x);
  });
  if (pooling == TilePooling::kSum) return sum;
  if (visible == 0) return std::numeric_limits<double>::quiet_NaN();
  if (pooling == TilePooling::kMax) return high;
  if (pooling == TilePooling::kMin) return low;
  return sum / static_cast<double>(visible);
}

template <typename T>
void Pool(const ScoreTiling& tiling, const TensorView& scores,
          const TensorView& masked_logits, const MutableTensorView& pooled) {
  const int64_t rows = scores.shape[2];
  const int64_t keys = scores.shape[3];
  const auto* from = reinterpret_cast<const T*>(scores.data);
  const auto* masked = reinterpret_cast<const T*>(masked_logits.data);
  auto* to = reinterpret_cast<T*>(pooled.data);
  const int64_t planes = scores.shape[0] * scores.shape[1];
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (int64_t i = 0; i < pooled.shape[2]; ++i) {
      for (int64_t j = 0; j < pooled.shape[3]; ++j) {
        TileAt tile;
        tile.row_begin = i * tiling.query_tile;
        tile.row_end =
            tile.row_begin + std::min(tiling.query_tile, rows - tile.row_begin);
        tile.key_begin = j * tiling.key_tile;
        tile.key_end =
            tile.key_begin + std::min(tiling.key_tile, keys - tile.key_begin);
        *to++ =
            static_cast<T>(PoolTile(tiling.pooling, from, masked, keys, tile));
      }
    }
    from += rows * keys;
    masked += rows * keys;
  }
}

absl::Status CheckTile(int64_t tile, absl::string_view field) {
  if (tile >= 1) return absl::OkStatus();
  return FieldError(field, absl::StrCat(tile), "1 or more");
}

}  // namespace

Shape ScoreTiling::ShapeOver(const Shape& scores) const {
  return {scores[0], scores[1], TilesOver(scores[2], query_tile),
          TilesOver(scores[3], key_tile)};
}

absl::StatusOr<ScoreTiling> DecodeTiling(const v1::InspectTiles& tiles) {
  for (const absl::Status& status :
       {CheckTile(tiles.query_tile(), "tiles.query_tile"),
        CheckTile(tiles.key_tile(), "tiles.key_tile")}) {
    if (!status.ok()) return status;
  }
  ScoreTiling tiling;
  tiling.query_tile = tiles.query_tile();
  tiling.key_tile = tiles.key_tile();
  switch (tiles.pooling()) {
    case v1::POOLING_MEAN:
    case v1::POOLING_MAX:
    case v1::POOLING_MIN:
    case v1::POOLING_SUM:
      tiling.pooling = static_cast<TilePooling>(tiles.pooling());
      return tiling;
    default:
      return EnumError("tiles.pooling", tiles.pooling(),
                       v1::Pooling_descriptor(), /*zero_is_legal=*/false);
  }
}

void PoolScores(const ScoreTiling& tiling, const TensorView& scores,
                const TensorView& masked_logits,
                const MutableTensorView& pooled) {
  if (scores.dtype == DType::kF64) {
    Pool<double>(tiling, scores, masked_logits, pooled);
  } else {
    Pool<float>(tiling, scores, masked_logits, pooled);
  }
}

}  // namespace attn
