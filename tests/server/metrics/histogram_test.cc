#include "server/metrics/histogram.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(HistogramBounds, AValueIsInTheFirstBucketThatHoldsIt) {
  const HistogramBounds bounds({1, 2, 4});
  EXPECT_EQ(bounds.BucketOf(-1), 0U);
  EXPECT_EQ(bounds.BucketOf(1), 0U);
  EXPECT_EQ(bounds.BucketOf(1.5), 1U);
  EXPECT_EQ(bounds.BucketOf(4), 2U);
  EXPECT_EQ(bounds.BucketOf(4.5), bounds.size());
}

TEST(HistogramBounds, AreWrittenAsTheShortestNumberThatIsTheSame) {
  const HistogramBounds bounds({0.05, 1, 1048576});
  EXPECT_EQ(bounds.text(0), "0.05");
  EXPECT_EQ(bounds.text(1), "1");
  EXPECT_EQ(bounds.text(2), "1048576");
  EXPECT_EQ(bounds.text(3), "+Inf");
}

TEST(HistogramBounds, ThoseOfTheServerAreAsDocumented) {
  EXPECT_EQ(LatencyBounds().size(), 35U);
  EXPECT_EQ(LatencyBounds().text(0), "1.5e-05");
  // 15 us * 1.5^34 is 14.57 s.
  EXPECT_EQ(LatencyBounds().BucketOf(14.5), 34U);
  EXPECT_EQ(LatencyBounds().BucketOf(14.6), 35U);
  EXPECT_EQ(UnitBounds().size(), 20U);
  EXPECT_EQ(UnitBounds().text(19), "1");
  EXPECT_EQ(BatchRequestBounds().text(10), "1024");
  EXPECT_EQ(BatchTokenBounds().text(20), "1048576");
}

TEST(Histogram, CountsAndAddsWhatThreadsObserve) {
  constexpr int kThreads = 4;
  constexpr int kValues = 10000;
  const HistogramBounds bounds({1, 2});
  Histogram histogram(bounds);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&histogram] {
      for (int i = 0; i < kValues; ++i) histogram.Observe(i % 4);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // 0 and 1; 2; 3.
  EXPECT_EQ(histogram.count(0), uint64_t{kThreads * kValues / 2});
  EXPECT_EQ(histogram.count(1), uint64_t{kThreads * kValues / 4});
  EXPECT_EQ(histogram.count(2), uint64_t{kThreads * kValues / 4});
  EXPECT_EQ(histogram.sum(), kThreads * kValues * 1.5);
}

}  // namespace
}  // namespace attn
