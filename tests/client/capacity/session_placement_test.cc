#include "client/capacity/session_placement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

int64_t Total(const std::vector<int64_t>& held) {
  return std::accumulate(held.begin(), held.end(), int64_t{0});
}
int64_t Fullest(const std::vector<int64_t>& held) {
  return *std::max_element(held.begin(), held.end());
}
std::vector<int64_t> Placed(int64_t sessions, int64_t replicas,
                            PlacementRule rule, uint64_t seed = 1) {
  RandomNumbers random(seed);
  return PlaceSessions(sessions, replicas, rule, random);
}

TEST(SessionPlacementTest, NoSessionIsLost) {
  for (const PlacementRule rule : {PlacementRule::kEven, PlacementRule::kRandom,
                                   PlacementRule::kTwoChoices}) {
    EXPECT_EQ(Total(Placed(12345, 17, rule)), 12345);
    EXPECT_EQ(Placed(9, 1, rule), std::vector<int64_t>({9}));
    EXPECT_EQ(Placed(1000, 7, rule), Placed(1000, 7, rule));
  }
}

TEST(SessionPlacementTest, EvenlyIsToWithinOne) {
  EXPECT_EQ(Placed(8, 3, PlacementRule::kEven),
            std::vector<int64_t>({3, 3, 2}));
}

// n balls into n bins: each bin is empty with (1 - 1/n)^n, and the fullest has
// ln n / ln ln n (1 + o(1)) with high probability (Raab and Steger 1998). For
// n = 1000 bins with k balls or more are n P(Poisson(1) >= k) on average: 19
// for k = 4, 0.08 for k = 7, 1e-5 for k = 10.
TEST(SessionPlacementTest, RandomIsBallsIntoBins) {
  constexpr int64_t kBins = 1000;
  double empty = 0;
  constexpr int kSeeds = 20;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto held = Placed(kBins, kBins, PlacementRule::kRandom, seed);
    empty += static_cast<double>(std::count(held.begin(), held.end(), 0));
    EXPECT_GE(Fullest(held), 4);
    EXPECT_LE(Fullest(held), 9);
  }
  const double share = std::pow(1 - 1.0 / kBins, kBins);
  EXPECT_NEAR(empty / kSeeds / kBins, share, 0.01);
}

// The fullest of two choices has ln ln n / ln 2 + O(1): 2.8 for n = 1000.
TEST(SessionPlacementTest, TwoChoicesAreMoreEvenThanOne) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto two = Placed(1000, 1000, PlacementRule::kTwoChoices, seed);
    EXPECT_LE(Fullest(two), 4);
    EXPECT_LT(Fullest(two),
              Fullest(Placed(1000, 1000, PlacementRule::kRandom, seed)));
  }
}

// With m balls for each of n bins the fullest has about m + sqrt(2 m ln n).
TEST(SessionPlacementTest, ManySessionsAreMoreEvenThanFew) {
  const auto held = Placed(10'000 * 100, 100, PlacementRule::kRandom);
  const double above = static_cast<double>(Fullest(held)) - 10'000;
  const double expected = std::sqrt(2 * 10'000 * std::log(100.0));
  EXPECT_GT(above, 0.5 * expected);
  EXPECT_LT(above, 1.5 * expected);
}

TEST(SessionPlacementTest, ReplicasAreFilledUntilOneIsFull) {
  RandomNumbers random(1);
  EXPECT_EQ(FillReplicas(5, 3, PlacementRule::kEven, random),
            std::vector<int64_t>({5, 5, 5}));
  for (const PlacementRule rule :
       {PlacementRule::kRandom, PlacementRule::kTwoChoices}) {
    const auto held = FillReplicas(50, 20, rule, random);
    EXPECT_EQ(Fullest(held), 50);
    EXPECT_LT(Total(held), 50 * 20);
  }
}

}  // namespace
}  // namespace attn
