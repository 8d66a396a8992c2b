#include "client/load/load_mix.h"

#include <cmath>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr int64_t kDraws = 100'000;

std::vector<int64_t> Drawn(const LoadMix& mix) {
  std::vector<int64_t> counts(mix.size(), 0);
  for (int64_t i = 0; i < kDraws; ++i) ++counts[mix.ClassOf(i)];
  return counts;
}

TEST(LoadMix, ClassesAreDrawnByTheirWeights) {
  const std::vector<double> weights = {8, 1, 0.5, 0.5};
  for (const uint64_t seed : {0, 1, 2, 77}) {
    const std::vector<int64_t> counts = Drawn(LoadMix(weights, seed));
    for (size_t i = 0; i < weights.size(); ++i) {
      // Binomial: five standard deviations, passed by chance once in 10^6.
      const double p = weights[i] / 10;
      const double deviation = std::sqrt(kDraws * p * (1 - p));
      EXPECT_NEAR(static_cast<double>(counts[i]), kDraws * p, 5 * deviation)
          << "class " << i << ", seed " << seed;
    }
  }
}

TEST(LoadMix, NeighboursAreDrawnIndependently) {
  const LoadMix mix({1, 1}, 5);
  int64_t repeats = 0;
  for (int64_t i = 0; i < kDraws; ++i) {
    if (mix.ClassOf(i) == mix.ClassOf(i + 1)) ++repeats;
  }
  EXPECT_NEAR(static_cast<double>(repeats), kDraws / 2,
              5 * std::sqrt(kDraws / 4.0));
}

TEST(LoadMix, TheSeedAloneDecides) {
  const LoadMix mix({1, 2, 3}, 9);
  const LoadMix same({1, 2, 3}, 9);
  const LoadMix other({1, 2, 3}, 10);
  int64_t differ = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(mix.ClassOf(i), same.ClassOf(i));
    if (mix.ClassOf(i) != other.ClassOf(i)) ++differ;
  }
  EXPECT_GT(differ, 100);
}

TEST(LoadMix, WithoutWeightsThereIsOneClass) {
  const LoadMix mix({}, 1);
  EXPECT_EQ(mix.size(), 1u);
  EXPECT_EQ(Drawn(mix), std::vector<int64_t>{kDraws});
}

TEST(LoadMix, VeryUnequalWeightsStayInRange) {
  const LoadMix mix({1e-9, 1e9}, 3);
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(mix.ClassOf(i), 1u);
}

}  // namespace
}  // namespace attn
