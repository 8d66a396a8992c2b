#include "engine/kernels/row_describer.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Problem WithStatistics() {
  Problem problem;
  problem.outputs.statistics = true;
  return problem;
}

// What a normalizer has filled in when the describer comes.
RowStatistics Before(const std::vector<double>& logits) {
  RowStatistics row;
  row.logit_min = kInfinity;
  row.logit_max = -kInfinity;
  for (const double x : logits) {
    if (x == -kInfinity) continue;
    ++row.visible_keys;
    row.logit_min = std::min(row.logit_min, x);
    row.logit_max = std::max(row.logit_max, x);
  }
  if (row.visible_keys == 0) return {};
  return row;
}

// One row of logits and weights, values of the given norms.
RowStatistics Describe(std::vector<double> logits, std::vector<double> weights,
                       const std::vector<double>& norms) {
  RowStatistics row = Before(logits);
  Tile<double> tile;
  tile.bounds.rows = 1;
  tile.bounds.keys = static_cast<int64_t>(logits.size());
  tile.stride = tile.bounds.keys;
  DescribedTile<double> described{tile, tile, norms.data()};
  described.logits.data = logits.data();
  described.weights.data = weights.data();
  RowDescriber(WithStatistics()).Describe(described, &row);
  return row;
}

RowStatistics DescribeLogits(const std::vector<double>& logits) {
  const std::vector<double> zeros(logits.size(), 0.0);
  return Describe(logits, zeros, zeros);
}

TEST(RowDescriberTest, MomentsAreThoseOfTheVisibleLogits) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(3, 2);
  for (int64_t count = 1; count < 40; ++count) {
    std::vector<double> logits;
    long double sum = 0;
    int64_t visible = 0;
    for (int64_t j = 0; j < count; ++j) {
      const bool excluded = j % 3 == 1;
      logits.push_back(excluded ? -kInfinity : normal(random));
      if (excluded) continue;
      sum += logits.back();
      ++visible;
    }
    const long double mean = sum / static_cast<long double>(visible);
    long double squares = 0;
    for (const double x : logits) {
      if (x != -kInfinity) squares += (x - mean) * (x - mean);
    }
    const RowStatistics row = DescribeLogits(logits);
    EXPECT_NEAR(row.logit_mean, static_cast<double>(mean), 1e-14);
    EXPECT_NEAR(row.logit_std,
                static_cast<double>(
                    std::sqrt(squares / static_cast<long double>(visible))),
                1e-14);
  }
}

TEST(RowDescriberTest, ALargeOffsetCostsNoDigitsOfTheDeviation) {
  // 0 to 9 have variance (10^2 - 1) / 12; 2^50 + j is exact.
  std::vector<double> logits;
  for (int j = 0; j < 10; ++j) logits.push_back(0x1p50 + j);
  const RowStatistics row = DescribeLogits(logits);
  EXPECT_DOUBLE_EQ(row.logit_mean, 0x1p50 + 4.5);
  EXPECT_NEAR(row.logit_std, std::sqrt(99.0 / 12), 1e-12);
}

TEST(RowDescriberTest, TheEndsOfTheRangeNeitherOverflowNorVanish) {
  for (const double x : {1e308, 1.0, 1e-300, 5e-324}) {
    const RowStatistics row = DescribeLogits({x, -x, x, -x});
    EXPECT_EQ(row.logit_mean, 0) << x;
    EXPECT_DOUBLE_EQ(row.logit_std, x);
  }
}

TEST(RowDescriberTest, EqualLogitsHaveNoDeviation) {
  for (const double x : {0.0, 0.1, -1e9, 1e308}) {
    const RowStatistics row = DescribeLogits(std::vector<double>(11, x));
    EXPECT_DOUBLE_EQ(row.logit_mean, x);
    EXPECT_NEAR(row.logit_std, 0, std::abs(x) * 1e-15);
  }
}

TEST(RowDescriberTest, AnEmptyRowStaysAtZero) {
  const RowStatistics row = Describe({-kInfinity, -kInfinity}, {0, 0}, {1, 1});
  EXPECT_EQ(row.logit_mean, 0);
  EXPECT_EQ(row.logit_std, 0);
  EXPECT_EQ(row.contribution, 0);
}

TEST(RowDescriberTest, AVisibleNaNSpoilsTheMoments) {
  const RowStatistics row = DescribeLogits({1, kNaN, 2});
  EXPECT_TRUE(std::isnan(row.logit_mean));
  EXPECT_TRUE(std::isnan(row.logit_std));
}

TEST(RowDescriberTest, ContributionWeighsNormsByMagnitude) {
  const RowStatistics row =
      Describe({1, 2, 3}, {0.5, -0.25, 0}, {2.0, 4.0, 8.0});
  EXPECT_DOUBLE_EQ(row.contribution, 0.5 * 2 + 0.25 * 4);
}

TEST(RowDescriberTest, AnExcludedKeysValueDoesNotCount) {
  const RowStatistics row = Describe({1, -kInfinity}, {1, 0}, {2, kNaN});
  EXPECT_DOUBLE_EQ(row.contribution, 2);
}

std::vector<double> Norms(const std::vector<double>& values, int64_t width) {
  const auto count = static_cast<int64_t>(values.size()) / width;
  const TensorView view =
      TensorView::Dense(values.data(), DType::kF64, Shape{1, 1, count, width});
  std::vector<double> scratch(static_cast<size_t>(width));
  std::vector<double> norms(static_cast<size_t>(count));
  ValueNorms(PaddedRows(view, 0, 0), 0, count, scratch.data(), norms.data());
  return norms;
}

TEST(RowDescriberTest, NormsAreEuclideanAtEveryScale) {
  for (const double unit : {1.0, 1e200, 1e-200}) {
    const std::vector<double> norms =
        Norms({3 * unit, -4 * unit, 0, 0, 5 * unit, 12 * unit}, 2);
    EXPECT_DOUBLE_EQ(norms[0], 5 * unit);
    EXPECT_EQ(norms[1], 0);
    EXPECT_DOUBLE_EQ(norms[2], 13 * unit);
  }
  EXPECT_EQ(Norms({1, kInfinity}, 2)[0], kInfinity);
  EXPECT_TRUE(std::isnan(Norms({kNaN, 1}, 2)[0]));
}

}  // namespace
}  // namespace attn
