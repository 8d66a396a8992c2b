#include "server/rpc/inspect_views.h"

#include <algorithm>
#include <limits>
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
  for (int64_t row = window.query.begin; row < window.query.end; ++row) {
    for (int64_t key = window.key.begin; key < window.key.end; ++key, ++at) {
      const float score =
          ScoreAt(window.batch.begin, window.head.begin, row, key);
      reinterpret_cast<float*>(part.weights.data)[at] = score;
      reinterpret_cast<float*>(part.logits.data)[at] = -score;
      reinterpret_cast<float*>(part.masked_logits.data)[at] =
          row % 2 == 0 ? -std::numeric_limits<float>::infinity() : 0;
    }
  }
}

TEST(InspectedScores, PartsCoverTheWindowOnceAndPoolIt) {
  constexpr int64_t kHeads = 2;
  constexpr int64_t kRows = 3301;
  constexpr int64_t kColumns = 3607;
  InspectedScores scores(PooledOptions(kHeads, kRows, kColumns));
  ASSERT_GT(scores.part_count(), kHeads);  // a head takes several
  scores.Allocate();
  int64_t rows = 0;
  for (int64_t part = 0; part < scores.part_count(); ++part) {
    const AttentionOutputs views = scores.Part(part);
    EXPECT_EQ(views.window.batch.size(), 1);
    EXPECT_EQ(views.window.head.size(), 1);
    rows += views.window.query.size();
    FillPart(views);
    scores.PoolPart(part);
  }
  EXPECT_EQ(rows, kHeads * kRows);
  const std::vector<ResponseTensor> tensors = scores.Take();
  ASSERT_EQ(tensors.size(), 2U);
  const auto* logits = reinterpret_cast<const float*>(tensors[0].data.data());
  const auto* weights = reinterpret_cast<const float*>(tensors[1].data.data());
  EXPECT_EQ(tensors[0].shape, (Shape{1, kHeads, 413, 451}));
  for (int64_t h = 2; h < 2 + kHeads; ++h) {
    for (int64_t i = 0; i < 413; ++i) {
      for (int64_t j = 0; j < 451; ++j) {
        float low = std::numeric_limits<float>::infinity();
        float high = -low;
        for (int64_t r = 5 + i * 8; r < std::min(5 + i * 8 + 8, 5 + kRows);
             ++r) {
          for (int64_t k = 7 + j * 8;
               k < std::min(7 + j * 8 + 8, 7 + kColumns) && r % 2 != 0; ++k) {
            low = std::min(low, ScoreAt(1, h, r, k));
            high = std::max(high, ScoreAt(1, h, r, k));
          }
        }
        ASSERT_EQ(*weights++, high) << h << " " << i << " " << j;
        ASSERT_EQ(*logits++, -low) << h << " " << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace attn
