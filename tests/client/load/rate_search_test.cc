#include "client/load/rate_search.h"

#include "gtest/gtest.h"

namespace attn {
namespace {

// Holds up to a knee, and remembers what was tried.
class Knee {
 public:
  explicit Knee(double knee) : knee_(knee) {}

  RateSearchOutcome Search(const RateSearchOptions& options) {
    return SearchRate(options,
                      [this](double rate) -> absl::StatusOr<bool> {
                        tried_.push_back(rate);
                        return rate <= knee_;
                      })
        .value();
  }
  const std::vector<double>& tried() const { return tried_; }

 private:
  double knee_;
  std::vector<double> tried_;
};

RateSearchOptions From(double start) {
  return {.lowest = 1, .start = start, .highest = 1e6, .tolerance = 0.05};
}

class KneeTest : public ::testing::TestWithParam<double> {};

TEST_P(KneeTest, IsFoundWithinTheToleranceFromAnyStart) {
  for (const double start : {1.0, 10.0, 500.0, 1e5, 1e6}) {
    Knee knee(GetParam());
    const RateSearchOutcome outcome = knee.Search(From(start));
    ASSERT_TRUE(outcome.held.has_value()) << start;
    ASSERT_TRUE(outcome.failed.has_value()) << start;
    EXPECT_LE(*outcome.held, GetParam());
    EXPECT_GT(*outcome.failed, GetParam());
    if (!outcome.converged) continue;  // Very far from the start.
    EXPECT_LE(*outcome.failed, *outcome.held * 1.05);
  }
}

INSTANTIATE_TEST_SUITE_P(Knees, KneeTest,
                         ::testing::Values(1.0, 3.3, 100.0, 1234.5, 99'999.0));

TEST(RateSearch, NearTheStartItTakesFewTrials) {
  // Twice to grow, then log2(ln 2 / ln 1.05) = 3.8 halvings.
  Knee knee(150);
  const RateSearchOutcome outcome = knee.Search(From(100));
  EXPECT_TRUE(outcome.converged);
  EXPECT_LE(outcome.trials, 6);
  EXPECT_EQ(static_cast<size_t>(outcome.trials), knee.tried().size());
}

TEST(RateSearch, NoRateOutsideTheRangeIsTried) {
  for (const double knee_rate : {0.5, 20.0, 1e9}) {
    Knee knee(knee_rate);
    knee.Search({.lowest = 10, .start = 13, .highest = 70, .tolerance = 0.01});
    for (const double rate : knee.tried()) {
      EXPECT_GE(rate, 10);
      EXPECT_LE(rate, 70);
    }
  }
}

TEST(RateSearch, IfEvenTheLowestFailsThereIsNoKnee) {
  Knee knee(0.5);
  const RateSearchOutcome outcome = knee.Search(From(300));
  EXPECT_FALSE(outcome.held.has_value());
  EXPECT_EQ(outcome.failed, 1);
  EXPECT_TRUE(outcome.converged);
}

TEST(RateSearch, IfTheHighestHoldsNothingHigherIsTried) {
  Knee knee(1e9);
  const RateSearchOutcome outcome =
      knee.Search({.lowest = 1, .start = 100, .highest = 450});
  EXPECT_EQ(outcome.held, 450);
  EXPECT_FALSE(outcome.failed.has_value());
  EXPECT_TRUE(outcome.converged);
  EXPECT_EQ(knee.tried(), (std::vector<double>{100, 200, 400, 450}));
}

TEST(RateSearch, TheNumberOfTrialsIsBounded) {
  RateSearchOptions options = From(100);
  options.tolerance = 1e-12;
  options.most_trials = 7;
  Knee knee(777);
  const RateSearchOutcome outcome = knee.Search(options);
  EXPECT_EQ(outcome.trials, 7);
  EXPECT_FALSE(outcome.converged);
  EXPECT_LE(*outcome.held, 777);
}

TEST(RateSearch, AnErrorEndsIt) {
  int trials = 0;
  const auto outcome =
      SearchRate(From(100), [&trials](double) -> absl::StatusOr<bool> {
        if (++trials == 3) return absl::UnavailableError("gone");
        return true;
      });
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(trials, 3);
}

}  // namespace
}  // namespace attn
