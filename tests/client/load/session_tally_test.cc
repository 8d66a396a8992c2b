#include "client/load/session_tally.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(WaveTally, EachWaveCountsOnceHoweverManyStepsTellOfIt) {
  WaveTally waves;
  EXPECT_EQ(waves.mean(), 0);
  EXPECT_EQ(waves.share(), 0);
  // A wave of three where five were ready, and one of a step alone.
  for (int i = 0; i < 3; ++i) waves.Add(3, 5);
  waves.Add(1, 1);
  EXPECT_EQ(waves.steps, 4);
  EXPECT_DOUBLE_EQ(waves.mean(), (3.0 + 1) / 2);
  EXPECT_DOUBLE_EQ(waves.share(), (3.0 + 1) / (5 + 1));
}

TEST(StepSpread, IsThatOfThePlaceWhoseTailIsLongest) {
  SessionTally tally(3);
  // The slowest, but even.
  tally.steps[0].Record(50'000, 200);
  // One in ten takes four times as long: p99 is.
  tally.steps[2].Record(10'000, 90);
  tally.steps[2].Record(40'000, 10);
  const StepSpread spread = SpreadOf(tally);
  // The second made no step.
  EXPECT_EQ(spread.places, 2);
  EXPECT_EQ(spread.place, 2U);
  EXPECT_EQ(spread.fewest_steps, 100);
  // As far as a place's histogram tells.
  EXPECT_NEAR(spread.ratio, 4, 4 * 0.04);
  EXPECT_NEAR(static_cast<double>(spread.median), 10'000, 200);
  EXPECT_NEAR(static_cast<double>(spread.p99), 40'000, 800);
}

TEST(StepSpread, IsNoneWithoutSteps) {
  EXPECT_EQ(SpreadOf(SessionTally(4)).places, 0);
  EXPECT_EQ(SpreadOf(SessionTally(4)).ratio, 0);
}

TEST(SessionFailures, NameWhatWasLostAndWhoWasSlow) {
  SessionTally tally(1);
  tally.opened = 9;
  tally.steps[0].Record(10, 90);
  tally.steps[0].Record(1000, 10);
  EXPECT_THAT(SessionFailures(tally, 0), IsEmpty());
  EXPECT_THAT(SessionFailures(tally, 200), IsEmpty());
  EXPECT_THAT(SessionFailures(tally, 3),
              ElementsAre(HasSubstr("steps of session 0")));
  tally.lost = 2;
  tally.left = 1;
  tally.not_begun = 4;
  EXPECT_THAT(SessionFailures(tally, 0),
              ElementsAre(HasSubstr("2 of 9 sessions were lost"),
                          HasSubstr("4 sessions could not be opened"),
                          HasSubstr("1 sessions could not be closed")));
}

TEST(SessionTally, AnotherProcesssPlacesComeAfterItsOwn) {
  SessionTally one(2);
  one.opened = 2;
  one.steps[1].Record(5);
  one.waves.Add(2, 2);
  SessionTally other(3);
  other.opened = 3;
  other.lost = 1;
  other.steps[0].Record(7);
  other.waves.Add(4, 8);
  one.Merge(other);
  EXPECT_EQ(one.opened, 5);
  EXPECT_EQ(one.lost, 1);
  ASSERT_EQ(one.steps.size(), 5U);
  EXPECT_EQ(one.steps[1].count(), 1);
  EXPECT_EQ(one.steps[2].max(), 7);
  EXPECT_DOUBLE_EQ(one.waves.waves, 1.0 / 2 + 1.0 / 4);
  EXPECT_DOUBLE_EQ(one.waves.ready, 1 + 8.0 / 4);
}

}  // namespace
}  // namespace attn
