#include "engine/tile/sparse_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
// Past every vector length, with every tail.
constexpr int64_t kMaxTail = 70;

class SparseRowsTest : public OnEveryTarget {
 protected:
  std::vector<float> Random(int64_t count, double spread) {
    std::normal_distribution<double> draw(0, spread);
    std::vector<float> row(static_cast<size_t>(count));
    for (float& x : row) x = static_cast<float>(draw(random_));
    return row;
  }

  std::mt19937 random_{17};
};
ATTN_ON_EVERY_TARGET(SparseRowsTest);

// The definition: [(alpha - 1) x - tau]_+ ^ (1 / (alpha - 1)) with tau halved
// in on until the sum is 1.
std::vector<double> Entmax(const std::vector<float>& row, double alpha) {
  const double max = *std::max_element(row.begin(), row.end());
  const auto weights = [&](double t) {
    std::vector<double> w;
    for (const float x : row) {
      const double excess = (alpha - 1) * (static_cast<double>(x) - max - t);
      w.push_back(excess > -1 ? std::exp(std::log1p(excess) / (alpha - 1)) : 0);
    }
    return w;
  };
  // t = (tau + 1) / (alpha - 1)
  double low = 0;
  double high = 1 / (alpha - 1);
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    double sum = 0;
    for (const double w : weights(middle)) sum += w;
    (sum >= 1 ? low : high) = middle;
  }
  return weights(low);
}

void ExpectEntmax(const std::vector<float>& row, double alpha) {
  const auto count = static_cast<int64_t>(row.size());
  const std::vector<double> want = Entmax(row, alpha);
  std::vector<float> got = row;
  const float max = *std::max_element(row.begin(), row.end());
  if (alpha == 2) {
    SparsemaxRow(got.data(), count, max);
  } else {
    EntmaxRow(got.data(), count, max, alpha);
  }
  for (size_t i = 0; i < row.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 1e-7)
        << "element " << i << " of " << count << ", alpha " << alpha;
    ASSERT_TRUE(row[i] != -kInf || got[i] == 0);
  }
}

constexpr double kAlphas[] = {1 + 1e-9, 1.0001, 1.05, 1.2, 1.25,
                              1.3,      1.5,    1.75, 2};

TEST_P(SparseRowsTest, WeightsAreTheDefinitionsAtEveryLength) {
  for (const double alpha : kAlphas) {
    for (int64_t count = 1; count <= kMaxTail; ++count) {
      ExpectEntmax(Random(count, 1), alpha);
    }
  }
}

TEST_P(SparseRowsTest, WeightsAreTheDefinitionsAtEverySpreadAndShift) {
  for (const double alpha : kAlphas) {
    for (const double spread : {0.0, 1e-6, 0.01, 0.3, 10.0, 1000.0}) {
      std::vector<float> row = Random(333, spread);
      ExpectEntmax(row, alpha);
      for (float& x : row) x += 64;
      ExpectEntmax(row, alpha);
      for (size_t i = 0; i < row.size(); i += 3) row[i] = -kInf;
      ExpectEntmax(row, alpha);
    }
  }
}

// More elements have weights than are gathered before the search.
TEST_P(SparseRowsTest, RowsOfManyWeightsAreSolvedWhereTheyStand) {
  for (const double alpha : {1.2, 1.5, 2.0}) {
    ExpectEntmax(Random(9001, 1e-4), alpha);
    ExpectEntmax(Random(9001, 2), alpha);
    ExpectEntmax(std::vector<float>(9001, -3), alpha);
  }
}

TEST_P(SparseRowsTest, AWeightAtTheThresholdIsZero) {
  std::vector<float> row = {1, 0, 0.5F, 0, -7};
  SparsemaxRow(row.data(), 5, 1);
  EXPECT_THAT(row, testing::ElementsAre(0.75F, 0, 0.25F, 0, 0));
  row = {0, 1, 0};
  SparsemaxRow(row.data(), 3, 1);
  EXPECT_THAT(row, testing::ElementsAre(0, 1, 0));
  row = {-2, 0, -2};
  EntmaxRow(row.data(), 3, 0, 1.5);
  EXPECT_THAT(row, testing::ElementsAre(0, 1, 0));
}

TEST_P(SparseRowsTest, EqualLogitsShareEqually) {
  for (const double alpha : kAlphas) {
    for (const float value : {0.0F, -1e30F, 3e38F}) {
      std::vector<float> row(48, value);
      EntmaxRow(row.data(), 48, value, alpha);
      EXPECT_THAT(row, testing::Each(testing::FloatEq(1.0F / 48))) << alpha;
    }
  }
}

TEST_P(SparseRowsTest, TheLargestNumbersOverflowNothing) {
  const float largest = std::numeric_limits<float>::max();
  std::vector<float> row(40, -largest);
  row[5] = largest;
  row[6] = -kInf;
  for (const double alpha : kAlphas) {
    std::vector<float> got = row;
    EntmaxRow(got.data(), 40, largest, alpha);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], i == 5 ? 1.0F : 0.0F) << alpha;
    }
    got.assign(40, -kInf);
    got[39] = -largest;
    EntmaxRow(got.data(), 40, -largest, alpha);
    ASSERT_EQ(got[39], 1.0F);
    ASSERT_EQ(got[0], 0.0F);
  }
}

TEST_P(SparseRowsTest, NothingIsWrittenBeyondTheRow) {
  for (int64_t count = 1; count <= kMaxTail; ++count) {
    for (const double alpha : {1.3, 1.5, 2.0}) {
      std::vector<float> row(kMaxTail + 40, -1);
      EntmaxRow(row.data(), count, -1, alpha);
      for (size_t i = static_cast<size_t>(count); i < row.size(); ++i) {
        ASSERT_EQ(row[i], -1.0F) << count << " " << i;
      }
    }
  }
}

TEST_P(SparseRowsTest, BitsDoNotDependOnAlignment) {
  const std::vector<float> row = Random(613, 1);
  const float max = *std::max_element(row.begin(), row.end());
  for (const double alpha : {1.2, 1.5, 2.0}) {
    std::vector<float> first = row;
    EntmaxRow(first.data(), 613, max, alpha);
    for (size_t shift = 1; shift <= 17; ++shift) {
      std::vector<float> moved(row.size() + shift);
      const auto begin = moved.begin() + static_cast<int>(shift);
      std::copy(row.begin(), row.end(), begin);
      EntmaxRow(moved.data() + shift, 613, max, alpha);
      ASSERT_TRUE(std::equal(first.begin(), first.end(), begin));
    }
  }
}

TEST_P(SparseRowsTest, CopyAboveKeepsOrderAndItsRoom) {
  for (int64_t count = 0; count <= kMaxTail; ++count) {
    std::vector<float> row = Random(count, 1);
    if (count > 2) row[2] = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> want;
    std::copy_if(row.begin(), row.end(), std::back_inserter(want),
                 [](float x) { return x > 0.1F; });
    const auto found = static_cast<int64_t>(want.size());
    std::vector<float> got(want.size() + 1, -9);
    ASSERT_EQ(CopyAbove(row.data(), count, 0.1F, got.data(), found), found);
    want.push_back(-9);
    ASSERT_EQ(got, want);
    ASSERT_EQ(CopyAbove(row.data(), count, 0.1F, got.data(), 0), found);
  }
}

}  // namespace
}  // namespace attn
