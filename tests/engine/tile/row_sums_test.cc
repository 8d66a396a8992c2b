#include "engine/tile/row_sums.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
// Past every vector length, with every tail.
constexpr int64_t kMaxTail = 40;

class RowSumsTest : public OnEveryTarget {
 protected:
  // Every fourth element is excluded.
  std::vector<float> Logits(int64_t count) {
    std::uniform_real_distribution<float> draw(-3, 5);
    std::vector<float> row;
    for (int64_t j = 0; j < count; ++j) {
      row.push_back(j % 4 == 1 ? kExcluded : draw(random_));
    }
    return row;
  }

  std::mt19937 random_{23};
};
ATTN_ON_EVERY_TARGET(RowSumsTest);

TEST_P(RowSumsTest, SumsAreThoseOfTheVisibleElements) {
  for (int64_t count = 0; count < kMaxTail; ++count) {
    const std::vector<float> row = Logits(count);
    long double sum = 0;
    long double away = 0;
    long double squares = 0;
    constexpr double kCentre = 0.75;
    for (const float x : row) {
      if (x == kExcluded) continue;
      sum += x;
      away += x - kCentre;
      squares += (x - kCentre) * (x - kCentre);
    }
    EXPECT_NEAR(SumOf(row.data(), count, 1), static_cast<double>(sum), 1e-13);
    const DeviationSums sums = DeviationsOf(row.data(), count, {1, kCentre});
    EXPECT_NEAR(sums.sum, static_cast<double>(away), 1e-13);
    EXPECT_NEAR(sums.squares, static_cast<double>(squares), 1e-12);
  }
}

TEST_P(RowSumsTest, WeightsCountByMagnitudeWhereTheyAreVisible) {
  for (int64_t count = 0; count < kMaxTail; ++count) {
    const std::vector<float> logits = Logits(count);
    std::vector<float> weights;
    std::vector<double> factors;
    double want = 0;
    for (int64_t j = 0; j < count; ++j) {
      const auto i = static_cast<size_t>(j);
      weights.push_back(static_cast<float>(j % 2 == 0 ? -j : j) / 64);
      const bool hidden = logits[i] == kExcluded;
      factors.push_back(hidden ? std::nan("") : 0.5 * static_cast<double>(j));
      if (!hidden) want += std::abs(double{weights[i]}) * factors[i];
    }
    EXPECT_NEAR(
        WeightedSumOf(logits.data(), weights.data(), factors.data(), count),
        want, 1e-12);
  }
}

TEST_P(RowSumsTest, AVisibleNaNIsNotPassedOver) {
  for (int64_t at = 0; at < kMaxTail; ++at) {
    std::vector<float> row(kMaxTail, 1);
    row[static_cast<size_t>(at)] = kNaN;
    EXPECT_TRUE(std::isnan(SumOf(row.data(), kMaxTail, 1)));
    EXPECT_TRUE(std::isnan(DeviationsOf(row.data(), kMaxTail, {1, 0}).squares));
  }
}

TEST_P(RowSumsTest, SquaresOfTheLargestFloatsDoNotOverflow) {
  const std::vector<float> row(9, std::numeric_limits<float>::max());
  const double largest = std::numeric_limits<float>::max();
  EXPECT_DOUBLE_EQ(SquaresOf(row.data(), 9), 9 * largest * largest);
  EXPECT_EQ(SquaresOf(row.data(), 0), 0);
}

TEST_P(RowSumsTest, NormsAreThoseOfEachRow) {
  constexpr int64_t kStride = kMaxTail + 3;
  std::uniform_real_distribution<float> draw(-2, 2);
  std::vector<float> rows(5 * kStride);
  for (float& x : rows) x = draw(random_);
  // Squares that no float holds.
  rows[kStride] = 1e30F;
  for (int64_t width = 0; width <= kMaxTail; ++width) {
    std::vector<float> norms(6, -9);
    NormsOf(rows.data(), kStride, width, 5, norms.data());
    for (size_t r = 0; r < 5; ++r) {
      double squares = 0;
      for (int64_t c = 0; c < width; ++c) {
        const double x = rows[r * kStride + static_cast<size_t>(c)];
        squares += x * x;
      }
      ASSERT_FLOAT_EQ(norms[r], static_cast<float>(std::sqrt(squares)));
    }
    ASSERT_EQ(norms[5], -9);
    std::vector<double> wide(5);
    NormsOf(rows.data(), kStride, width, 5, wide.data());
    for (size_t r = 0; r < 5; ++r) {
      ASSERT_EQ(static_cast<float>(wide[r]), norms[r]);
    }
  }
}

TEST_P(RowSumsTest, DoublesAreSummedAlike) {
  const std::vector<float> row = Logits(kMaxTail);
  const std::vector<double> wide(row.begin(), row.end());
  EXPECT_NEAR(SumOf(wide.data(), kMaxTail, 4),
              4 * SumOf(row.data(), kMaxTail, 1), 1e-12);
  const DeviationSums want = DeviationsOf(row.data(), kMaxTail, {1, 0.5});
  const DeviationSums got = DeviationsOf(wide.data(), kMaxTail, {4, 2});
  EXPECT_NEAR(got.sum, 4 * want.sum, 1e-12);
  EXPECT_NEAR(got.squares, 16 * want.squares, 1e-11);
}

}  // namespace
}  // namespace attn
