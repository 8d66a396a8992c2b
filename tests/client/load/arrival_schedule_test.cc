#include "client/load/arrival_schedule.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

std::vector<int64_t> Take(ArrivalSchedule& schedule, size_t count) {
  std::vector<int64_t> instants(count);
  for (int64_t& instant : instants) instant = schedule.Next();
  return instants;
}

std::vector<double> Gaps(const std::vector<int64_t>& instants) {
  std::vector<double> gaps;
  int64_t last = 0;
  for (const int64_t instant : instants) {
    gaps.push_back(static_cast<double>(instant - last) * 1e-9);
    last = instant;
  }
  return gaps;
}

TEST(ConstantArrivals, StartAtOnceAndDoNotDrift) {
  const auto schedule = MakeArrivals(Arrivals::kConstant, 3, 0);
  const std::vector<int64_t> instants = Take(*schedule, 3'000'001);
  EXPECT_EQ(instants[0], 0);
  EXPECT_EQ(instants[1], 333'333'333);
  EXPECT_EQ(instants[3], 1'000'000'000);
  EXPECT_EQ(instants[3'000'000], 1'000'000'000'000'000);
}

TEST(PoissonArrivals, GapsHaveMeanAndDeviationOfTheirRate) {
  constexpr double kRate = 250;
  constexpr size_t kCount = 100'000;
  const auto schedule = MakeArrivals(Arrivals::kPoisson, kRate, 7);
  const std::vector<double> gaps = Gaps(Take(*schedule, kCount));
  double sum = 0;
  double squares = 0;
  for (const double gap : gaps) {
    ASSERT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / kCount;
  const double deviation = std::sqrt(squares / kCount - mean * mean);
  // Five standard errors of each estimate.
  EXPECT_NEAR(mean * kRate, 1, 5 / std::sqrt(kCount));
  EXPECT_NEAR(deviation * kRate, 1, 5 * std::sqrt(2.0 / kCount));
}

TEST(PoissonArrivals, GapsFollowTheExponentialDistribution) {
  constexpr double kRate = 1000;
  constexpr size_t kCount = 100'000;
  const auto schedule = MakeArrivals(Arrivals::kPoisson, kRate, 11);
  const std::vector<double> gaps = Gaps(Take(*schedule, kCount));
  for (const double scaled : {0.1, 0.5, 1.0, 2.0, 4.0}) {
    double longer = 0;
    for (const double gap : gaps) longer += gap * kRate > scaled ? 1 : 0;
    const double expected = std::exp(-scaled);
    const double error = std::sqrt(expected * (1 - expected) / kCount);
    EXPECT_NEAR(longer / kCount, expected, 5 * error) << scaled;
  }
}

TEST(PoissonArrivals, SeedDecidesTheSeries) {
  const auto a = MakeArrivals(Arrivals::kPoisson, 100, 1);
  const auto b = MakeArrivals(Arrivals::kPoisson, 100, 1);
  const auto c = MakeArrivals(Arrivals::kPoisson, 100, 2);
  const std::vector<int64_t> series = Take(*a, 1000);
  EXPECT_EQ(series, Take(*b, 1000));
  EXPECT_NE(series, Take(*c, 1000));
}

TEST(Arrivals, NamesRoundTripAndOthersAreRefused) {
  for (const Arrivals arrivals : {Arrivals::kConstant, Arrivals::kPoisson}) {
    EXPECT_EQ(ParseArrivals(Name(arrivals)).value(), arrivals);
  }
  const absl::Status status = ParseArrivals("bursty").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("poisson"));
}

}  // namespace
}  // namespace attn
