#include "client/cli/compare.h"

#include <limits>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int64_t Mismatches(double got, double want, const Tolerance& tolerance) {
  return Compare(*HostTensor::From<double>({1}, {got}),
                 *HostTensor::From<double>({1}, {want}), tolerance)
      ->mismatches;
}

TEST(CompareTest, AllowsAbsoluteAndRelativeDifferences) {
  EXPECT_EQ(Mismatches(100.5, 100, {.rtol = 0.004, .atol = 0.1}), 0);
  EXPECT_EQ(Mismatches(100.6, 100, {.rtol = 0.004, .atol = 0.1}), 1);
  EXPECT_EQ(Mismatches(1, 1, {}), 0);
}

TEST(CompareTest, InfinitiesAndNanMustBeMetExactly) {
  const Tolerance wide{.rtol = 1, .atol = 1e9};
  EXPECT_EQ(Mismatches(kInf, kInf, wide), 0);
  EXPECT_EQ(Mismatches(-kInf, kInf, wide), 1);
  EXPECT_EQ(Mismatches(1, kInf, wide), 1);
  EXPECT_EQ(Mismatches(kInf, 1, wide), 1);
  EXPECT_EQ(Mismatches(kNan, kNan, wide), 0);
  EXPECT_EQ(Mismatches(kNan, 1, wide), 1);
  EXPECT_EQ(Mismatches(1, kNan, wide), 1);
}

TEST(CompareTest, NamesTheWorstElement) {
  const auto comparison =
      Compare(*HostTensor::From<double>({2, 2}, {1, 2, 3, 9}),
              *HostTensor::From<double>({2, 2}, {1, 2.5, 3, 4}),
              {.rtol = 0, .atol = 0.1});
  ASSERT_TRUE(comparison.ok());
  EXPECT_EQ(comparison->mismatches, 2);
  EXPECT_EQ(comparison->worst->index, "[1, 1]");
  EXPECT_EQ(comparison->worst->got, 9);
  EXPECT_EQ(comparison->max_difference, 5);
}

TEST(CompareTest, BroadcastsWhatIsWanted) {
  const auto got = HostTensor::From<double>({2, 1, 2}, {1, 2, 1, 2});
  EXPECT_EQ(
      Compare(*got, *HostTensor::From<double>({2}, {1, 2}), {})->mismatches, 0);
  EXPECT_EQ(
      Compare(*got, *HostTensor::From<double>({2}, {2, 1}), {})->mismatches, 4);
  EXPECT_FALSE(
      Compare(*got, *HostTensor::From<double>({3}, {1, 2, 3}), {}).ok());
}

}  // namespace
}  // namespace attn
