#include "engine/tile/weight_sums.h"

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

class WeightSumsTest : public OnEveryTarget {
 protected:
  std::vector<float> Random(int64_t count, float low, float high) {
    std::uniform_real_distribution<float> draw(low, high);
    std::vector<float> row(static_cast<size_t>(count));
    for (float& x : row) x = draw(random_);
    return row;
  }

  std::mt19937 random_{17};
};
ATTN_ON_EVERY_TARGET(WeightSumsTest);

constexpr int64_t kCounts[] = {0, 1, 3, 15, 16, 17, 70, 511, 513, 4096, 20000};

TEST_P(WeightSumsTest, SumExpKeepsSixDigitsAndPassesOverExcludedElements) {
  for (const int64_t count : kCounts) {
    for (const float spread : {0.01F, 3.0F, 60.0F}) {
      std::vector<float> row = Random(count, -spread, 0);
      for (size_t i = 0; i < row.size(); i += 4) row[i] = -kInf;
      for (float& x : row) x += 2;
      double want = 0;
      for (const float x : row) want += std::exp(static_cast<double>(x) - 2);
      const double got = SumExp(row.data(), count, 2.0F);
      ASSERT_NEAR(got, want, 1e-6 * want) << count << " " << spread;
    }
  }
}

TEST_P(WeightSumsTest, SumsOfWeightsAreThoseOfEachByItself) {
  for (const int64_t count : kCounts) {
    for (const float size : {1e-30F, 1e-3F, 1.0F, 1e10F}) {
      std::vector<float> row = Random(count, -size, size);
      for (size_t i = 0; i < row.size(); i += 3) row[i] = 0;
      WeightSums<double> want;
      double magnitude = 0;
      for (const float x : row) {
        if (x == 0) continue;
        const double w = std::abs(static_cast<double>(x));
        want.sum += w;
        want.weighted += w * std::log(w);
        magnitude += std::abs(w * std::log(w));
        want.max = std::max(want.max, static_cast<double>(x));
      }
      const WeightSums<float> got = SumWeights(row.data(), count);
      ASSERT_NEAR(got.sum, want.sum, 1e-6 * want.sum) << count << " " << size;
      ASSERT_NEAR(got.weighted, want.weighted, 1e-6 * magnitude);
      ASSERT_EQ(static_cast<double>(got.max), want.max);
    }
  }
}

TEST_P(WeightSumsTest, OneHotHasNoEntropyWhereverItStands) {
  for (size_t at = 0; at < 70; ++at) {
    std::vector<float> row(70, 0);
    row[at] = 1;
    const WeightSums<float> got = SumWeights(row.data(), 70);
    ASSERT_EQ(got.sum, 1.0);
    ASSERT_EQ(got.weighted, 0.0);
    ASSERT_EQ(got.max, 1.0F);
  }
}

TEST_P(WeightSumsTest, NoLargestWeightIsBelowZero) {
  const std::vector<float> row(70, -2);
  const WeightSums<float> got = SumWeights(row.data(), 70);
  EXPECT_EQ(got.max, 0.0F);
  EXPECT_EQ(got.sum, 140.0);
}

TEST_P(WeightSumsTest, DoublesAreSummedAlike) {
  const std::vector<double> row = {0.5, 0, -0.25, 2};
  const WeightSums<double> got = SumWeights(row.data(), 4);
  EXPECT_DOUBLE_EQ(got.sum, 2.75);
  EXPECT_DOUBLE_EQ(got.weighted, 0.5 * std::log(0.5) + 0.25 * std::log(0.25) +
                                     2 * std::log(2.0));
  EXPECT_EQ(got.max, 2);
  const std::vector<double> logits = {1, -HUGE_VAL, 0};
  EXPECT_DOUBLE_EQ(SumExp(logits.data(), 3, 1.0), 1 + std::exp(-1.0));
}

}  // namespace
}  // namespace attn
