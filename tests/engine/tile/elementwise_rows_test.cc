#include "engine/tile/elementwise_rows.h"

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
constexpr int64_t kMaxTail = 70;

class ElementwiseRowsTest : public OnEveryTarget {
 protected:
  std::vector<float> Random(int64_t count, float low, float high) {
    std::uniform_real_distribution<float> draw(low, high);
    std::vector<float> row(static_cast<size_t>(count));
    for (float& x : row) x = draw(random_);
    return row;
  }

  std::mt19937 random_{17};
};
ATTN_ON_EVERY_TARGET(ElementwiseRowsTest);

TEST_P(ElementwiseRowsTest, SigmoidIsTheLogisticFunctionOverItsDivisor) {
  for (int64_t count = 0; count <= kMaxTail; ++count) {
    for (const float bias : {0.0F, -7.5F, 3.0F}) {
      const std::vector<float> row = Random(count, -40, 40);
      std::vector<float> got = row;
      SigmoidRow(got.data(), count, bias, 3.0F);
      for (size_t i = 0; i < row.size(); ++i) {
        // The sum of logit and bias is rounded; so are the four steps after it.
        const double x = static_cast<double>(row[i] + bias);
        const double want = 1 / (1 + std::exp(-x)) / 3;
        ASSERT_NEAR(got[i], want, 4e-7 * want) << row[i] << " + " << bias;
      }
    }
  }
}

TEST_P(ElementwiseRowsTest, SigmoidTreatsTheEdgesByName) {
  std::vector<float> row = {-kInf, kInf, -1000, 1000, 0, -3e38F};
  SigmoidRow(row.data(), 6, 0, 1);
  EXPECT_THAT(row, testing::ElementsAre(0, 1, 0, 1, 0.5F, 0));
}

TEST_P(ElementwiseRowsTest, ReluIsThePowerOfWhatIsAboveZero) {
  for (int64_t count = 0; count <= kMaxTail; ++count) {
    for (const double power : {0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 7.3}) {
      const std::vector<float> row = Random(count, -30, 30);
      std::vector<float> got = row;
      ReluRow(got.data(), count, power, 7.0F);
      for (size_t i = 0; i < row.size(); ++i) {
        const double x = static_cast<double>(std::max(row[i], 0.0F));
        const double want = std::pow(x, power) / 7;
        ASSERT_NEAR(got[i], want, 2e-7 * want) << row[i] << " ^ " << power;
      }
    }
  }
}

TEST_P(ElementwiseRowsTest, ReluTreatsTheEdgesByName) {
  for (const double power : {0.1, 0.5, 1.0, 2.0, 3.0, 50.0}) {
    std::vector<float> row = {-kInf, kInf, -5, 0, -0.0F, 1};
    ReluRow(row.data(), 6, power, 1);
    EXPECT_THAT(row, testing::ElementsAre(0, kInf, 0, 0, 0, 1)) << power;
  }
  // 9e38 is no float, but its quotient is one.
  std::vector<float> row = {3e19F};
  ReluRow(row.data(), 1, 2, 100);
  EXPECT_FLOAT_EQ(row[0], 9e36F);
}

TEST_P(ElementwiseRowsTest, SumPositiveAddsWhatIsAboveZero) {
  for (const int64_t count : {0, 1, 15, 70, 512, 513, 5000}) {
    std::vector<float> row = Random(count, -1, 1);
    if (count > 3) row[3] = -kInf;
    double want = 0;
    for (const float x : row) want += std::max(static_cast<double>(x), 0.0);
    ASSERT_NEAR(SumPositive(row.data(), count), want, 1e-6 * want);
  }
}

TEST_P(ElementwiseRowsTest, NothingIsWrittenBeyondTheRow) {
  for (int64_t count = 0; count <= kMaxTail; ++count) {
    std::vector<float> row(kMaxTail + 40, -1);
    SigmoidRow(row.data(), count, 0, 1);
    ReluRow(row.data(), count, 1, 1);
    ReluRow(row.data(), count, 2, 1);
    ReluRow(row.data(), count, 0.3, 1);
    for (size_t i = static_cast<size_t>(count); i < row.size(); ++i) {
      ASSERT_EQ(row[i], -1.0F) << count << " " << i;
    }
  }
}

}  // namespace
}  // namespace attn
