#include "engine/tile/online_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
// Past every vector length, with every tail.
constexpr int64_t kMaxTail = 70;

using Row = std::vector<float>;

// A row's softmax without its last step, from the definition.
struct Expected {
  double max = -HUGE_VAL;
  double min = HUGE_VAL;
  double sum = 0;
  double weighted = 0;
  int64_t visible = 0;
  int64_t top = -1;
};

Expected Of(const Row& row) {
  Expected want;
  for (size_t j = 0; j < row.size(); ++j) {
    if (row[j] == -kInf) continue;
    const auto x = static_cast<double>(row[j]);
    ++want.visible;
    want.min = std::min(want.min, x);
    if (x > want.max) {
      want.max = x;
      want.top = static_cast<int64_t>(j);
    }
  }
  for (const float x : row) {
    if (x == -kInf) continue;
    const double d = static_cast<double>(x) - want.max;
    want.sum += std::exp(d);
    want.weighted += std::exp(d) * d;
  }
  return want;
}

class OnlineRowsTest : public OnEveryTarget {
 protected:
  Row Random(int64_t count, double spread) {
    std::normal_distribution<double> draw(0, spread);
    Row row(static_cast<size_t>(count));
    for (float& x : row) x = static_cast<float>(draw(random_));
    return row;
  }

  // Takes a row in, `step` keys at a time. Returns the state and, in `row`, the
  // exponentials all brought to the last maximum.
  static OnlineRow Absorb(Row& row, int64_t step) {
    OnlineRow state;
    const auto count = static_cast<int64_t>(row.size());
    for (int64_t key = 0; key < count; key += step) {
      float factor = kNaN;
      AbsorbTile({.data = row.data() + key,
                  .stride = count,
                  .rows = 1,
                  .count = std::min(step, count - key),
                  .first_key = key},
                 &state, &factor);
      for (int64_t j = 0; j < key; ++j) row[static_cast<size_t>(j)] *= factor;
    }
    return state;
  }

  static void Expect(const Row& logits, int64_t step) {
    const Expected want = Of(logits);
    Row row = logits;
    const OnlineRow got = Absorb(row, step);
    EXPECT_EQ(got.visible, want.visible);
    EXPECT_EQ(got.top_key, want.top);
    EXPECT_FALSE(got.has_nan);
    if (want.visible == 0) {
      EXPECT_EQ(got.sum, 0);
      EXPECT_EQ(got.weighted, 0);
    } else {
      EXPECT_EQ(got.max, want.max);
      EXPECT_EQ(got.min, want.min);
      EXPECT_NEAR(got.sum, want.sum, 1e-6 * want.sum);
      EXPECT_NEAR(got.weighted, want.weighted,
                  1e-6 * (want.sum - want.weighted));
    }
    for (size_t j = 0; j < row.size(); ++j) {
      const double e = std::exp(static_cast<double>(logits[j]) - want.max);
      ASSERT_NEAR(row[j], logits[j] == -kInf ? 0 : e, 5e-7) << "key " << j;
      ASSERT_TRUE(row[j] == 0 || logits[j] != -kInf);
    }
  }

  std::mt19937 random_{23};
};
ATTN_ON_EVERY_TARGET(OnlineRowsTest);

TEST_P(OnlineRowsTest, SumsAreThoseOfTheSoftmaxInAnySteps) {
  for (int64_t count = 1; count <= kMaxTail; ++count) {
    const Row row = Random(count, 3);
    for (const int64_t step : {int64_t{1}, int64_t{7}, int64_t{16}, count}) {
      Expect(row, step);
    }
  }
  Expect(Random(1500, 10), 512);
}

TEST_P(OnlineRowsTest, ExcludedKeysCountNothing) {
  std::bernoulli_distribution excluded(0.4);
  for (int64_t count = 1; count <= kMaxTail; ++count) {
    Row row = Random(count, 3);
    for (float& x : row) x = excluded(random_) ? -kInf : x;
    for (const int64_t step : {int64_t{5}, int64_t{16}, count}) {
      Expect(row, step);
    }
  }
}

TEST_P(OnlineRowsTest, RowsThatBeginOrEndWithoutAKey) {
  for (int64_t hidden = 1; hidden <= 40; ++hidden) {
    Row row = Random(48, 2);
    std::fill_n(row.begin(), hidden, -kInf);
    Expect(row, 16);
    Expect(row, 48);
    row = Random(48, 2);
    std::fill_n(row.end() - hidden, hidden, -kInf);
    Expect(row, 16);
    Expect(row, 48);
  }
  Expect(Row(40, -kInf), 16);
}

TEST_P(OnlineRowsTest, TheFirstOfEqualLargestLogitsIsTheTopKey) {
  for (int64_t first = 0; first < kMaxTail; ++first) {
    Row row(kMaxTail, -1);
    for (int64_t j = first; j < kMaxTail; j += 3) {
      row[static_cast<size_t>(j)] = 4;
    }
    Row work = row;
    EXPECT_EQ(Absorb(work, 16).top_key, first);
    work = row;
    EXPECT_EQ(Absorb(work, kMaxTail).top_key, first);
  }
}

// -1e9 stands for a mask in other software; its term vanishes.
TEST_P(OnlineRowsTest, AFarKeyIsVisibleAndAddsNothing) {
  Row row(37, 1.5F);
  row[11] = -1e9F;
  Row work = row;
  const OnlineRow got = Absorb(work, 37);
  EXPECT_EQ(got.visible, 37);
  EXPECT_EQ(got.min, -1e9F);
  EXPECT_EQ(got.sum, 36);
  EXPECT_EQ(got.weighted, 0);
  EXPECT_EQ(work[11], 0);
}

TEST_P(OnlineRowsTest, LogitsAsLargeAsFloatsGo) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  Row work = {-kLargest, kLargest, 0, kLargest};
  const OnlineRow got = Absorb(work, 2);
  EXPECT_EQ(got.sum, 2);
  EXPECT_EQ(got.weighted, 0);
  EXPECT_EQ(got.top_key, 1);
  EXPECT_EQ(work, (Row{0, 1, 0, 1}));
}

TEST_P(OnlineRowsTest, ANaNIsNoticedWhereverItStands) {
  for (int64_t at = 0; at < kMaxTail; ++at) {
    for (const int64_t step : {int64_t{16}, kMaxTail}) {
      Row row = Random(kMaxTail, 2);
      row[static_cast<size_t>(at)] = kNaN;
      const OnlineRow got = Absorb(row, step);
      EXPECT_TRUE(got.has_nan) << at;
      EXPECT_EQ(got.visible, kMaxTail);
    }
  }
  Row all(20, kNaN);
  EXPECT_TRUE(Absorb(all, 20).has_nan);
  Row hidden(40, -kInf);
  hidden[3] = kNaN;
  const OnlineRow got = Absorb(hidden, 16);
  EXPECT_TRUE(got.has_nan);
  EXPECT_EQ(got.visible, 1);
}

TEST_P(OnlineRowsTest, AnInfiniteLogitIsTheMaximumAndSpoilsTheSum) {
  for (const int64_t step : {5, 16, 40}) {
    Row row = Random(40, 2);
    row[21] = kInf;
    const OnlineRow got = Absorb(row, step);
    EXPECT_EQ(got.max, kInf);
    EXPECT_FALSE(got.has_nan);
    EXPECT_TRUE(std::isnan(got.sum));
    EXPECT_EQ(got.visible, 40);
  }
}

TEST_P(OnlineRowsTest, ARowHasTheSameBitsWhateverItsCompany) {
  constexpr int64_t kRows = 37;
  constexpr int64_t kCount = 53;
  Row tile = Random(kRows * kCount, 3);
  Row alone = {tile.begin() + 20 * kCount, tile.begin() + 21 * kCount};
  std::vector<OnlineRow> states(kRows);
  std::vector<float> factors(kRows);
  AbsorbTile({tile.data(), kCount, kRows, kCount, 0}, states.data(),
             factors.data());
  const OnlineRow state = Absorb(alone, kCount);
  EXPECT_EQ(states[20].sum, state.sum);
  EXPECT_EQ(states[20].weighted, state.weighted);
  EXPECT_EQ(alone, Row(tile.begin() + 20 * kCount, tile.begin() + 21 * kCount));
}

}  // namespace
}  // namespace attn
