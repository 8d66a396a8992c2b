#include "client/capacity/random_numbers.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr int kDraws = 200'000;

struct Moments {
  double mean = 0;
  double variance = 0;
};

template <typename Draw>
Moments MomentsOf(Draw draw) {
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = draw();
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kDraws;
  return {mean, squares / kDraws - mean * mean};
}

TEST(RandomNumbersTest, TheSameSeedGivesTheSame) {
  RandomNumbers a(7);
  RandomNumbers b(7);
  RandomNumbers c(8);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const double value = a.Uniform();
    EXPECT_EQ(value, b.Uniform());
    differs = differs || value != c.Uniform();
  }
  EXPECT_TRUE(differs);
}

TEST(RandomNumbersTest, UniformNumbersCanBeTheLogarithmsArgument) {
  RandomNumbers random(1);
  const Moments moments = MomentsOf([&] {
    const double value = random.Uniform();
    EXPECT_GT(value, 0);
    EXPECT_LE(value, 1);
    return value;
  });
  EXPECT_NEAR(moments.mean, 0.5, 0.005);
  EXPECT_NEAR(moments.variance, 1.0 / 12, 0.002);
}

TEST(RandomNumbersTest, EveryNumberBelowACountComesAsOften) {
  RandomNumbers random(1);
  std::vector<int> seen(7, 0);
  for (int i = 0; i < 70'000; ++i) {
    ++seen.at(static_cast<size_t>(random.Below(7)));
  }
  // Five standard deviations of a binomial.
  for (const int count : seen) EXPECT_NEAR(count, 10'000, 5 * 93);
}

TEST(RandomNumbersTest, MeansAndVariancesAreThoseThatWereAskedFor) {
  RandomNumbers random(1);
  const Moments exponential = MomentsOf([&] { return random.Exponential(); });
  EXPECT_NEAR(exponential.mean, 1, 0.02);
  EXPECT_NEAR(exponential.variance, 1, 0.05);
  for (const double variation : {0.0, 0.1, 0.5}) {
    const Moments moments =
        MomentsOf([&] { return random.LogNormal(variation); });
    EXPECT_NEAR(moments.mean, 1, 0.02);
    EXPECT_NEAR(moments.variance, variation, 0.05 * variation + 1e-12);
  }
}

}  // namespace
}  // namespace attn
