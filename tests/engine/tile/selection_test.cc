#include "engine/tile/selection.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class SelectionTest : public OnEveryTarget {
 protected:
  std::vector<float> Random(int64_t count) {
    std::normal_distribution<float> draw;
    std::vector<float> row(static_cast<size_t>(count));
    for (float& x : row) x = draw(random_);
    return row;
  }
  // Few values, so that most are equal to many others.
  std::vector<float> Ties(int64_t count, int values) {
    std::uniform_int_distribution<int> draw(0, values - 1);
    std::vector<float> row(static_cast<size_t>(count));
    for (float& x : row) x = static_cast<float>(draw(random_));
    return row;
  }

  std::mt19937 random_{17};
};
ATTN_ON_EVERY_TARGET(SelectionTest);

std::vector<float> Sorted(std::vector<float> row) {
  std::sort(row.begin(), row.end(), std::greater<float>());
  return row;
}

int64_t Size(const std::vector<float>& row) {
  return static_cast<int64_t>(row.size());
}

void ExpectKthLargest(const std::vector<float>& row, int64_t k) {
  std::vector<float> scratch(row.size());
  const Cutoff got = LargestByCount(row.data(), Size(row), k, scratch.data());
  ASSERT_EQ(got.value, Sorted(row)[static_cast<size_t>(k - 1)])
      << k << " of " << row.size();
  ASSERT_EQ(got.count, k);
}

TEST_P(SelectionTest, TheKthLargestIsThatOfTheSortedRow) {
  for (const int64_t count : {1, 2, 17, 63, 64, 65, 70, 200, 2048}) {
    const std::vector<float> row = Random(count);
    for (int64_t k = 1; k <= count; k += 1 + count / 37) {
      ExpectKthLargest(row, k);
    }
    ExpectKthLargest(row, count);
  }
}

TEST_P(SelectionTest, EqualElementsCountEach) {
  for (const int values : {1, 2, 5, 300}) {
    const std::vector<float> row = Ties(1000, values);
    for (int64_t k = 1; k <= 1000; k += 27) ExpectKthLargest(row, k);
  }
}

TEST_P(SelectionTest, ExcludedElementsAreTheSmallest) {
  std::vector<float> row = Random(700);
  for (size_t i = 0; i < row.size(); ++i) {
    if (i % 3 != 1) row[i] = -kInf;
  }
  row[4] = kInf;
  for (int64_t k = 1; k <= 700; k += 13) ExpectKthLargest(row, k);
}

// Every element that the first sample looks at is larger than any other, and so
// on: the search must end all the same.
TEST_P(SelectionTest, RowsMadeToDefeatTheSampleAreSelectedFrom) {
  for (const float sign : {1.0F, -1.0F}) {
    std::vector<float> row(4096);
    for (size_t i = 0; i < row.size(); ++i) {
      const auto powers = static_cast<float>(i == 0 ? 64 : __builtin_ctzl(i));
      row[i] = sign * (powers + 1e-4F * static_cast<float>(i % 64));
    }
    for (const int64_t k : {1, 5, 64, 2048, 4000, 4096}) {
      ExpectKthLargest(row, k);
    }
    std::vector<float> rising(3000);
    for (size_t i = 0; i < rising.size(); ++i) {
      rising[i] = sign * static_cast<float>(i);
    }
    for (const int64_t k : {1, 70, 1500, 2999}) ExpectKthLargest(rising, k);
  }
}

TEST_P(SelectionTest, TheFirstOfEqualElementsAreKept) {
  for (int64_t count = 1; count <= 70; ++count) {
    for (int64_t kept = 1; kept <= count; kept += 3) {
      std::vector<float> row = Ties(count, 4);
      std::vector<float> scratch(row.size());
      std::vector<float> want = row;
      // Stable: equal elements keep their order.
      std::vector<size_t> order(row.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return row[a] > row[b]; });
      for (size_t i = static_cast<size_t>(kept); i < order.size(); ++i) {
        want[order[i]] = -kInf;
      }
      KeepLargest(row.data(), count,
                  LargestByCount(row.data(), count, kept, scratch.data()));
      ASSERT_EQ(row, want) << kept << " of " << count;
    }
  }
}

TEST_P(SelectionTest, KeepLargestLeavesNaNAndWhatLiesBeyond) {
  std::vector<float> row = {1, kNaN, 5, 2, kInf, -kInf, 2, 7};
  KeepLargest(row.data(), 7, {2, 7});
  EXPECT_TRUE(std::isnan(row[1]));
  row[1] = 0;
  EXPECT_THAT(row, testing::ElementsAre(-kInf, 0, 5, 2, kInf, -kInf, 2, 7));
}

// Sorts and adds, in double.
Cutoff ByWeight(const std::vector<float>& row, double share) {
  const std::vector<float> sorted = Sorted(row);
  std::vector<double> weights;
  double total = 0;
  for (const float x : sorted) {
    weights.push_back(std::exp(static_cast<double>(x) - sorted[0]));
    total += weights.back();
  }
  Cutoff cutoff;
  for (double sum = 0; sum < share * total;) {
    sum += weights[static_cast<size_t>(cutoff.count)];
    cutoff.value = sorted[static_cast<size_t>(cutoff.count++)];
  }
  return cutoff;
}

void ExpectByWeight(const std::vector<float>& row, double share) {
  std::vector<float> scratch(row.size());
  const float max = *std::max_element(row.begin(), row.end());
  const Cutoff got =
      LargestByWeight(row.data(), Size(row), {max, share}, scratch.data());
  const Cutoff want = ByWeight(row, share);
  ASSERT_EQ(got.value, want.value) << share << " of " << row.size();
  ASSERT_EQ(got.count, want.count) << share << " of " << row.size();
}

TEST_P(SelectionTest, TheLargestByWeightAreThoseOfTheSortedRow) {
  for (const int64_t count : {1, 2, 17, 64, 65, 200, 2048}) {
    for (const float spread : {0.1F, 1.0F, 8.0F}) {
      std::vector<float> row = Random(count);
      for (float& x : row) x = x * spread + 3;
      for (const double share : {1e-9, 0.1, 0.5, 0.9, 0.999}) {
        ExpectByWeight(row, share);
      }
    }
  }
}

TEST_P(SelectionTest, AShareIsReachedExactlyAmongEqualElements) {
  std::vector<float> row(256, 2);
  std::vector<float> scratch(row.size());
  for (const double share : {0.125, 0.25, 0.5, 0.75}) {
    const Cutoff got =
        LargestByWeight(row.data(), 256, {2, share}, scratch.data());
    EXPECT_EQ(got.value, 2.0F);
    EXPECT_EQ(got.count, static_cast<int64_t>(256 * share));
  }
  for (size_t i = 0; i < row.size(); i += 2) row[i] = -kInf;
  EXPECT_EQ(LargestByWeight(row.data(), 256, {2, 0.5}, scratch.data()).count,
            64);
}

}  // namespace
}  // namespace attn
