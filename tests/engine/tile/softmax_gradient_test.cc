#include "engine/tile/softmax_gradient.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
// Every tail, and beyond a block of sums.
constexpr int64_t kCounts[] = {0, 1, 7, 15, 16, 17, 33, 511, 512, 530, 1100};

class SoftmaxGradientTest : public OnEveryTarget {
 protected:
  std::vector<float> Random(int64_t count, float low, float high) {
    std::uniform_real_distribution<float> draw(low, high);
    std::vector<float> row(static_cast<size_t>(count));
    for (float& x : row) x = draw(random_);
    return row;
  }
  // Every third weight is 0.
  std::vector<float> Weights(int64_t count) {
    std::vector<float> weights = Random(count, 0.1F, 1);
    for (size_t i = 0; i < weights.size(); i += 3) weights[i] = 0;
    return weights;
  }

  std::mt19937 random_{5};
};
ATTN_ON_EVERY_TARGET(SoftmaxGradientTest);

TEST_P(SoftmaxGradientTest, WeightedSumAddsWhatHasAWeight) {
  for (const int64_t count : kCounts) {
    const std::vector<float> weights = Weights(count);
    std::vector<float> values = Random(count, -1, 1);
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      sum += static_cast<double>(weights[i]) * values[i];
    }
    EXPECT_NEAR(WeightedSum(weights.data(), values.data(), count), sum, 1e-4);
    for (size_t i = 0; i < values.size(); i += 3) values[i] = kNaN;
    EXPECT_NEAR(WeightedSum(weights.data(), values.data(), count), sum, 1e-4);
  }
}

TEST_P(SoftmaxGradientTest, LogitsTakeTheGradientOfTheirWeights) {
  for (const int64_t count : kCounts) {
    const std::vector<float> weights = Weights(count);
    std::vector<float> gradient = Random(count, -1, 1);
    for (size_t i = 0; i < gradient.size(); i += 3) gradient[i] = -kInf;
    const std::vector<float> before = gradient;
    SoftmaxGradientRow(weights.data(), count, 0.7F, -0.2F, gradient.data());
    for (size_t i = 0; i < gradient.size(); ++i) {
      if (i % 3 == 0) {
        ASSERT_EQ(gradient[i], 0);
        continue;
      }
      const double want =
          weights[i] * (0.7 * static_cast<double>(before[i]) - 0.2);
      ASSERT_NEAR(gradient[i], want, 1e-6);
    }
  }
}

TEST_P(SoftmaxGradientTest, SoftcapTakesTheSlopeOfTanh) {
  constexpr double kCap = 2.5;
  for (const int64_t count : kCounts) {
    std::vector<float> x = Random(count, -30, 30);
    std::vector<float> gradient = Random(count, -1, 1);
    if (count > 2) {
      // Excluded keys have gradient 0, whatever their score.
      x[1] = kNaN;
      gradient[1] = 0;
      x[2] = -kInf;
    }
    const std::vector<float> before = gradient;
    const double of_cap =
        SoftcapGradientRow(x.data(), count, kCap, gradient.data());
    double want_cap = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (before[i] == 0) {
        ASSERT_EQ(gradient[i], 0);
        continue;
      }
      const double u = x[i] / kCap;
      const double cosh = std::cosh(u);
      const double slope = 1 / (cosh * cosh);
      ASSERT_NEAR(gradient[i], before[i] * slope,
                  2e-6 * std::abs(before[i] * slope) + 1e-30);
      want_cap += before[i] * (std::tanh(u) - (slope == 0 ? 0 : u * slope));
    }
    ASSERT_NEAR(of_cap, want_cap, 1e-4);
  }
}

}  // namespace
}  // namespace attn
