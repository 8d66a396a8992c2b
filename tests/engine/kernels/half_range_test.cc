#include "engine/kernels/half_range.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tile<float> Row(std::vector<float>& values) {
  Tile<float> tile;
  tile.bounds.rows = 1;
  tile.bounds.keys = static_cast<int64_t>(values.size());
  tile.stride = tile.bounds.keys;
  tile.data = values.data();
  return tile;
}

TEST(HalfRangeTest, TheLargestHalfIsWithinAndTheNextFloatBeyond) {
  for (const float sign : {1.0F, -1.0F}) {
    std::vector<float> within = {0, sign * 65504.0F};
    EXPECT_FALSE(ExceedsHalf(Row(within)));
    std::vector<float> beyond = {0, sign * std::nextafter(65504.0F, kInfinity)};
    EXPECT_TRUE(ExceedsHalf(Row(beyond)));
  }
}

TEST(HalfRangeTest, VisibleFiniteLogitsCountOnceRawOrFinal) {
  std::vector<float> raw = {7e4F, 0, 7e4F, 7e4F, kInfinity};
  std::vector<float> final_logits = {0, -7e4F, -7e4F, -kInfinity, kInfinity};
  EXPECT_EQ(CountBeyondHalf(Row(raw), Row(final_logits)), 3);
}

}  // namespace
}  // namespace attn
