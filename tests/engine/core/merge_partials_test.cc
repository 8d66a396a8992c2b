#include "engine/core/merge_partials.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(MergePartialsTest, WeighsEachPartByItsShareOfTheSum) {
  // Wider than what is summed at a time.
  constexpr int64_t kWidth = 150;
  const double lses[] = {0.3, -2, 1.7};
  std::vector<std::vector<double>> outputs;
  std::vector<PartialRow<double>> parts;
  double sum = 0;
  for (int p = 0; p < 3; ++p) {
    outputs.emplace_back();
    for (int64_t c = 0; c < kWidth; ++c) {
      outputs.back().push_back(std::cos(static_cast<double>(c * (p + 1))));
    }
    sum += std::exp(lses[p]);
  }
  for (size_t p = 0; p < 3; ++p) parts.push_back({lses[p], outputs[p].data()});
  std::vector<double> merged(kWidth);
  EXPECT_NEAR(MergePartials<double>(parts, kWidth, merged.data()),
              std::log(sum), 1e-14);
  for (size_t c = 0; c < kWidth; ++c) {
    double want = 0;
    for (size_t p = 0; p < 3; ++p) {
      want += std::exp(lses[p]) / sum * outputs[p][c];
    }
    EXPECT_NEAR(merged[c], want, 1e-14);
  }
}

TEST(MergePartialsTest, AnEmptyPartIsTheIdentityAndIsNotRead) {
  const float values[] = {3, -4};
  const float poison[] = {std::nanf(""), std::nanf("")};
  const std::vector<PartialRow<float>> parts = {
      {-kInfinity, poison}, {0.25, values}, {-kInfinity, nullptr}};
  float merged[2] = {};
  EXPECT_EQ(MergePartials<float>(parts, 2, merged), 0.25);
  EXPECT_EQ(merged[0], 3);
  EXPECT_EQ(merged[1], -4);
}

TEST(MergePartialsTest, NoPartsAndEmptyOnesGiveAnEmptyRow) {
  float merged[1] = {7};
  EXPECT_EQ(MergePartials<float>({}, 1, merged), -kInfinity);
  EXPECT_EQ(merged[0], 0);
  merged[0] = 7;
  const std::vector<PartialRow<float>> empty(2, {-kInfinity, nullptr});
  EXPECT_EQ(MergePartials<float>(empty, 1, merged), -kInfinity);
  EXPECT_EQ(merged[0], 0);
}

TEST(MergePartialsTest, ANanIsNotHidden) {
  const double value[] = {1};
  const std::vector<PartialRow<double>> parts = {{kNan, value}, {0, value}};
  double merged[1] = {};
  EXPECT_TRUE(std::isnan(MergePartials<double>(parts, 1, merged)));
  EXPECT_TRUE(std::isnan(merged[0]));
}

TEST(JoinSinksTest, TheSumRunsOverKeysAndSinks) {
  const double sinks[] = {1, -0.5};
  const SinkJoin joined = JoinSinks(0.75, sinks);
  const double keys = std::exp(0.75);
  const double sum = keys + std::exp(1.0) + std::exp(-0.5);
  EXPECT_NEAR(joined.lse_with_sink, std::log(sum), 1e-15);
  EXPECT_NEAR(joined.factor, keys / sum, 1e-15);
}

TEST(JoinSinksTest, ARowWithoutKeysIsTheSinkAlone) {
  const double sinks[] = {2.5};
  const SinkJoin joined = JoinSinks(-kInfinity, sinks);
  EXPECT_EQ(joined.lse_with_sink, 2.5);
  EXPECT_EQ(joined.factor, 0);
}

TEST(JoinSinksTest, NoSinkChangesNothing) {
  const double absent[] = {-kInfinity};
  for (const double lse : {0.5, -kInfinity, 1e300}) {
    EXPECT_EQ(JoinSinks(lse, {}).lse_with_sink, lse);
    EXPECT_EQ(JoinSinks(lse, {}).factor, 1);
    EXPECT_EQ(JoinSinks(lse, absent).factor, 1);
  }
  EXPECT_TRUE(std::isnan(JoinSinks(kNan, {}).lse_with_sink));
}

}  // namespace
}  // namespace attn
