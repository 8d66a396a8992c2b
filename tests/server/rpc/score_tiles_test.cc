#include "server/rpc/score_tiles.h"

#include <cmath>
#include <limits>
#include <vector>

#include "engine/core/field_error.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Pool(TilePooling pooling, const std::vector<float>& scores,
                        const std::vector<float>& masked) {
  const Shape shape = {1, 1, 3, 5};
  const ScoreTiling tiling{.query_tile = 2, .key_tile = 2, .pooling = pooling};
  const Shape pooled_shape = tiling.ShapeOver(shape);
  std::vector<float> pooled(static_cast<size_t>(pooled_shape.element_count()),
                            77.0F);
  PoolScores(
      tiling, TensorView::Dense(scores.data(), DType::kF32, shape),
      TensorView::Dense(masked.data(), DType::kF32, shape),
      MutableTensorView::Dense(pooled.data(), DType::kF32, pooled_shape));
  return pooled;
}

const std::vector<float> kScores = {1,  2,  3,  4,  5,   //
                                    6,  7,  8,  9,  10,  //
                                    11, 12, 13, 14, 15};
// The tile of keys 2 and 3 in rows 0 and 1 is all masked, and key 0 of row 0.
const std::vector<float> kMaskedLogits = {kMasked, 0, kMasked, kMasked, 0,  //
                                          0,       0, kMasked, kMasked, 0,  //
                                          0,       0, 0,       0,       0};

TEST(ScoreTilesTest, OnlyVisibleKeysTakePart) {
  const std::vector<float> mean =
      Pool(TilePooling::kMean, kScores, kMaskedLogits);
  ASSERT_EQ(mean.size(), 6);
  EXPECT_EQ(mean[0], (2 + 6 + 7) / 3.0F);
  EXPECT_TRUE(std::isnan(mean[1]));
  EXPECT_EQ(mean[2], (5 + 10) / 2.0F);
  EXPECT_EQ(mean[3], (11 + 12) / 2.0F);
  EXPECT_EQ(mean[5], 15);
  const std::vector<float> max =
      Pool(TilePooling::kMax, kScores, kMaskedLogits);
  EXPECT_EQ(max[0], 7);
  EXPECT_TRUE(std::isnan(max[1]));
  const std::vector<float> min =
      Pool(TilePooling::kMin, kScores, kMaskedLogits);
  EXPECT_EQ(min[0], 2);
  EXPECT_TRUE(std::isnan(min[1]));
}

TEST(ScoreTilesTest, ASumTakesMaskedKeysAsZero) {
  const std::vector<float> sum =
      Pool(TilePooling::kSum, kScores, kMaskedLogits);
  EXPECT_EQ(sum[0], 2 + 6 + 7);
  EXPECT_EQ(sum[1], 0);
}

TEST(ScoreTilesTest, AVisibleNaNSpoilsItsTileOnly) {
  std::vector<float> scores = kScores;
  scores[1] = kNaN;
  scores[0] = kNaN;  // masked
  for (const TilePooling pooling : {TilePooling::kMean, TilePooling::kMax,
                                    TilePooling::kMin, TilePooling::kSum}) {
    const std::vector<float> pooled = Pool(pooling, scores, kMaskedLogits);
    EXPECT_TRUE(std::isnan(pooled[0]));
    EXPECT_FALSE(std::isnan(pooled[2]));
  }
}

TEST(ScoreTilesTest, LargeTilesCoverAllAndEmptyScoresHaveNone) {
  const ScoreTiling tiling{.query_tile = std::numeric_limits<int64_t>::max(),
                           .key_tile = std::numeric_limits<int64_t>::max()};
  EXPECT_EQ(tiling.ShapeOver({2, 3, 4, 5}), Shape({2, 3, 1, 1}));
  EXPECT_EQ(tiling.ShapeOver({2, 3, 0, 5}), Shape({2, 3, 0, 1}));
}

TEST(ScoreTilesTest, ErrorsNameTheField) {
  namespace wire = ::attention::v1;
  wire::InspectTiles tiles;
  EXPECT_EQ(FieldOf(DecodeTiling(tiles).status()), "tiles.query_tile");
  tiles.set_query_tile(1);
  EXPECT_EQ(FieldOf(DecodeTiling(tiles).status()), "tiles.key_tile");
  tiles.set_key_tile(1);
  EXPECT_EQ(FieldOf(DecodeTiling(tiles).status()), "tiles.pooling");
  tiles.set_pooling(static_cast<wire::Pooling>(9));
  EXPECT_EQ(FieldOf(DecodeTiling(tiles).status()), "tiles.pooling");
  tiles.set_pooling(wire::POOLING_SUM);
  ASSERT_TRUE(DecodeTiling(tiles).ok());
  EXPECT_EQ(DecodeTiling(tiles)->pooling, TilePooling::kSum);
}

}  // namespace
}  // namespace attn
