#include "engine/kernels/online_state.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// By the definition, over logits of the keys from `first_key` on.
OnlineRow StateOf(const std::vector<float>& logits, int64_t first_key) {
  OnlineRow row;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float x = logits[i];
    if (x == -kInfinity) continue;
    ++row.visible;
    row.has_nan |= std::isnan(x);
    if (x < row.min) row.min = x;
    if (x > row.max) {
      row.max = x;
      row.top_key = first_key + static_cast<int64_t>(i);
    }
  }
  for (const float x : logits) {
    const double distance =
        static_cast<double>(x) - static_cast<double>(row.max);
    if (x == -kInfinity) continue;
    row.sum += std::exp(distance);
    row.weighted += std::exp(distance) * distance;
  }
  return row;
}

void ExpectSame(const OnlineRow& got, const OnlineRow& want) {
  EXPECT_EQ(got.max, want.max);
  EXPECT_EQ(got.min, want.min);
  EXPECT_EQ(got.visible, want.visible);
  EXPECT_EQ(got.top_key, want.top_key);
  EXPECT_EQ(got.has_nan, want.has_nan);
  if (want.has_nan) return;
  EXPECT_NEAR(got.sum, want.sum, 1e-14 * want.sum);
  EXPECT_NEAR(got.weighted, want.weighted, 1e-13);
}

TEST(OnlineStateTest, PartsMakeTheWhole) {
  const std::vector<float> logits = {0.5F, -3, 2, -kInfinity, 7, 7, -200, 1};
  const OnlineRow whole = StateOf(logits, 0);
  for (size_t cut = 0; cut <= logits.size(); ++cut) {
    SCOPED_TRACE(cut);
    const auto at = logits.begin() + static_cast<int64_t>(cut);
    ExpectSame(
        JoinStates(StateOf({logits.begin(), at}, 0),
                   StateOf({at, logits.end()}, static_cast<int64_t>(cut))),
        whole);
  }
}

TEST(OnlineStateTest, PartsFarApartAreTheLargerOne) {
  const OnlineRow low = StateOf({-1e30F, -1e30F}, 0);
  const OnlineRow high = StateOf({3, 4}, 2);
  for (const OnlineRow& both : {JoinStates(low, high), JoinStates(high, low)}) {
    EXPECT_EQ(both.sum, high.sum);
    EXPECT_EQ(both.weighted, high.weighted);
    EXPECT_EQ(both.visible, 4);
    EXPECT_EQ(both.top_key, 3);
    EXPECT_EQ(both.min, -1e30F);
  }
}

TEST(OnlineStateTest, NaNOfOnePartIsTheRows) {
  const OnlineRow spoiled = StateOf({kNaN, 2}, 0);
  const OnlineRow both = JoinStates(StateOf({1, 5}, 2), spoiled);
  EXPECT_TRUE(both.has_nan);
  EXPECT_EQ(both.visible, 4);
  RowStatistics statistics;
  EXPECT_TRUE(std::isnan(DescribeState(both, {}, &statistics)));
  EXPECT_TRUE(std::isnan(statistics.lse));
  EXPECT_EQ(statistics.top_key, -1);
}

TEST(OnlineStateTest, StatisticsAreThoseOfTheDefinition) {
  const std::vector<float> logits = {1, 2, 0};
  const double sink = 1.5;
  RowStatistics statistics;
  const double factor =
      DescribeState(StateOf(logits, 10), {&sink, 1}, &statistics);
  const double sum = std::exp(1) + std::exp(2) + 1;
  EXPECT_NEAR(statistics.lse, std::log(sum), 1e-14);
  EXPECT_NEAR(statistics.lse_with_sink, std::log(sum + std::exp(sink)), 1e-14);
  EXPECT_NEAR(factor, std::exp(2) / (sum + std::exp(sink)), 1e-14);
  double entropy = 0;
  for (const double x : {1.0, 2.0, 0.0}) {
    entropy -= std::exp(x) / sum * std::log(std::exp(x) / sum);
  }
  EXPECT_NEAR(statistics.entropy, entropy, 1e-14);
  EXPECT_EQ(statistics.top_key, 11);
  EXPECT_EQ(statistics.visible_keys, 3);
}

TEST(OnlineStateTest, ARowWithoutKeysHasItsSinks) {
  const double sinks[] = {0, 0};
  RowStatistics statistics;
  EXPECT_EQ(DescribeState({}, sinks, &statistics), 0);
  EXPECT_EQ(statistics.lse, -static_cast<double>(kInfinity));
  EXPECT_NEAR(statistics.lse_with_sink, std::log(2.0), 1e-14);
  EXPECT_EQ(JoinStates({}, {}).visible, 0);
}

}  // namespace
}  // namespace attn
