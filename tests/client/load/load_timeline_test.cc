#include "client/load/load_timeline.h"

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr int64_t kSecondNanos = 1'000'000'000;

TEST(LoadTimeline, EachSecondHasItsOwnLatencies) {
  LoadTimeline timeline(3 * kSecondNanos);
  for (int64_t i = 1; i <= 100; ++i) {
    timeline.Record(i, i * 1'000'000);
    timeline.Record(kSecondNanos, 5'000'000);
  }
  timeline.CountError(2 * kSecondNanos);
  const std::vector<TimelinePoint> points = timeline.Points();
  ASSERT_EQ(points.size(), 3u);
  EXPECT_DOUBLE_EQ(points[1].start_s, 1);
  EXPECT_DOUBLE_EQ(points[1].length_s, 1);
  EXPECT_EQ(points[0].requests, 100);
  EXPECT_EQ(points[0].max, 100'000'000);
  EXPECT_NEAR(static_cast<double>(points[0].p50), 50e6, 50e6 / 32);
  EXPECT_NEAR(static_cast<double>(points[0].p99), 99e6, 99e6 / 32);
  EXPECT_NEAR(static_cast<double>(points[1].p99), 5e6, 5e6 / 32);
  EXPECT_EQ(points[2].requests, 0);
  EXPECT_EQ(points[2].errors, 1);
  EXPECT_EQ(timeline.total().count(), 200);
}

TEST(LoadTimeline, TheLastIntervalMayBeShorter) {
  const auto points = LoadTimeline(2 * kSecondNanos + 1).Points();
  ASSERT_EQ(points.size(), 3u);
  EXPECT_DOUBLE_EQ(points[2].length_s, 1e-9);
}

TEST(LoadTimeline, AWindowOfLessThanASecondIsOneInterval) {
  LoadTimeline timeline(kSecondNanos / 10);
  timeline.Record(kSecondNanos / 20, 7);
  ASSERT_EQ(timeline.Points().size(), 1u);
  EXPECT_EQ(timeline.Points()[0].max, 7);
  EXPECT_DOUBLE_EQ(timeline.Points()[0].length_s, 0.1);
}

TEST(LoadTimeline, ADayHasAHundredAndTwentyIntervalsAtMost) {
  LoadTimeline timeline(24 * 3600 * kSecondNanos);
  timeline.Record(24 * 3600 * kSecondNanos - 1, 7);
  const auto points = timeline.Points();
  EXPECT_LE(points.size(), 120u);
  EXPECT_EQ(points.back().max, 7);
}

}  // namespace
}  // namespace attn
