#include "server/rpc/inspect_views.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

InspectedScores::Options OfLength(int64_t length) {
  InspectedScores::Options options;
  options.window = {{0, 1}, {0, 32}, {0, length}, {0, length}};
  options.compare_heads = true;
  return options;
}

// Statistics of a long call must not need the memory of its scores.
TEST(InspectedScores, ALargeWindowThatIsNotShownTakesNoMemory) {
  EXPECT_EQ(InspectedScores(OfLength(4096)).booked_bytes(), 0);
  EXPECT_EQ(InspectedScores(OfLength(64)).booked_bytes(), 32 * 64 * 64 * 4);
}

TEST(InspectedScores, AWindowThatIsShownTakesItsOwn) {
  InspectedScores::Options options = OfLength(4096);
  options.shown.weights = true;
  EXPECT_GE(InspectedScores(options).shown_bytes(),
            int64_t{32} * 4096 * 4096 * 4);
}

// Pooled, 8 x 8, in a window that does not begin at 0.
InspectedScores::Options PooledOptions(int64_t heads, int64_t rows,
                                       int64_t keys) {
  InspectedScores::Options options;
  options.window = {{1, 2}, {2, 2 + heads}, {5, 5 + rows}, {7, 7 + keys}};
  options.tiling =
      ScoreTiling{.query_tile = 8, .key_tile = 8, .pooling = TilePooling::kMax};
  options.shown.weights = true;
  options.shown.logits = true;
  return options;
}

TEST(InspectedScores, TilesOfAVeryLongCallTakeLittleMemory) {
  InspectedScores::Options options = PooledOptions(8, 32768, 32768);
  options.tiling->query_tile = 64;
  options.tiling->key_tile = 64;
  EXPECT_LT(InspectedScores(options).booked_bytes(), int64_t{192} << 20);
}

TEST(InspectedScores, ASmallWindowIsOnePart) {
  EXPECT_EQ(InspectedScores(PooledOptions(4, 64, 64)).part_count(), 0);
  EXPECT_EQ(InspectedScores(OfLength(4096)).part_count(), 0);
}

// The value of a score says where it is; every key of a row with an even index
// is excluded.
float ScoreAt(int64_t batch, int64_t head, int64_t row, int64_t key) {
  return static_cast<float>(((batch * 11 + head) * 5003 + row) * 17 + key % 97);
}

void FillPart(const AttentionOutputs& part) {
  const ScoreWindow& window = part.window;
  int64_t at = 0;
  for (int64_t b = window.batch.begin; b < window.batch.end; ++b) {
    for (int64_t h = window.head.begin; h < window.head.end; ++h) {
      for (int64_t row = window.query.begin; row < window.query.end; ++row) {
        for (int64_t k = window.key.begin; k < window.key.end; ++k, ++at) {
          const float score = ScoreAt(b, h, row, k);
          reinterpret_cast<float*>(part.weights.data)[at] = score;
          reinterpret_cast<float*>(part.logits.data)[at] = -score;
          reinterpret_cast<float*>(part.masked_logits.data)[at] =
              row % 2 == 0 ? -std::numeric_limits<float>::infinity() : 0;
        }
      }
    }
  }
}

AxisRange TileOf(const AxisRange& axis, int64_t index) {
  const int64_t begin = axis.begin + index * 8;
  return {begin, std::min(begin + 8, axis.end)};
}

// The largest score of a tile's visible keys, and the largest of its negative.
std::pair<float, float> LargestOf(int64_t batch, int64_t head,
                                  const AxisRange& rows,
                                  const AxisRange& keys) {
  float low = std::numeric_limits<float>::infinity();
  float high = -low;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t k = keys.begin; k < keys.end && r % 2 != 0; ++k) {
      low = std::min(low, ScoreAt(batch, head, r, k));
      high = std::max(high, ScoreAt(batch, head, r, k));
    }
  }
  return {high, -low};
}

void ExpectPooled(const ScoreWindow& window,
                  const std::vector<ResponseTensor>& tensors) {
  ASSERT_EQ(tensors.size(), 2U);
  const Shape& shape = tensors[0].shape;
  ASSERT_EQ(shape, (Shape{window.batch.size(), window.head.size(),
                          (window.query.size() + 7) / 8,
                          (window.key.size() + 7) / 8}));
  const auto* logits = reinterpret_cast<const float*>(tensors[0].data.data());
  const auto* weights = reinterpret_cast<const float*>(tensors[1].data.data());
  for (int64_t plane = 0; plane < shape[0] * shape[1]; ++plane) {
    const int64_t b = window.batch.begin + plane / shape[1];
    const int64_t h = window.head.begin + plane % shape[1];
    for (int64_t i = 0; i < shape[2]; ++i) {
      for (int64_t j = 0; j < shape[3]; ++j) {
        const auto [weight, logit] =
            LargestOf(b, h, TileOf(window.query, i), TileOf(window.key, j));
        ASSERT_EQ(*weights++, weight) << b << " " << h << " " << i << " " << j;
        ASSERT_EQ(*logits++, logit) << b << " " << h << " " << i << " " << j;
      }
    }
  }
}

// Returns how many parts there were, each of no more than 128 MiB.
int64_t ExpectPartsPool(const InspectedScores::Options& options) {
  InspectedScores scores(options);
  scores.Allocate();
  int64_t elements = 0;
  for (int64_t part = 0; part < scores.part_count(); ++part) {
    const AttentionOutputs views = scores.Part(part);
    const int64_t taken = views.weights.shape.element_count();
    EXPECT_LE(taken * 3 * 4, int64_t{128} << 20);
    elements += taken;
    FillPart(views);
    scores.PoolPart(part);
  }
  const ScoreWindow& window = options.window;
  EXPECT_EQ(elements, window.batch.size() * window.head.size() *
                          window.query.size() * window.key.size());
  ExpectPooled(window, scores.Take());
  return scores.part_count();
}

TEST(InspectedScores, PartsCoverTheWindowOnceAndPoolIt) {
  // Two heads; one takes several parts.
  EXPECT_EQ(ExpectPartsPool(PooledOptions(2, 3301, 3607)), 4);
}

// Each part is a run that passes by all heads of the call: one for each of many
// small heads would take hours.
TEST(InspectedScores, SmallHeadsShareAPart) {
  EXPECT_EQ(ExpectPartsPool(PooledOptions(19, 1001, 1003)), 2);
  InspectedScores::Options options = PooledOptions(7, 99, 101);
  options.window.batch = {1, 301};
  EXPECT_EQ(ExpectPartsPool(options), 2);
  options.window.batch = {0, 1 << 16};
  options.window.head = {0, 1};
  EXPECT_LT(InspectedScores(options).part_count(), 100);
}

}  // namespace
}  // namespace attn
