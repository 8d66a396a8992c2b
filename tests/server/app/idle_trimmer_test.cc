#include "server/app/idle_trimmer.h"

#include <atomic>
#include <chrono>
#include <future>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

// After `seconds` of computing in all, with `mebibytes` MiB.
ProcessLoad At(int seconds, int64_t mebibytes) {
  return {.computed = absl::Seconds(seconds),
          .resident_bytes = mebibytes * kMebibyte};
}

TEST(IdleWatchTest, MemoryOfABusyTimeGoesBackWhenItIsOver) {
  IdleWatch watch;
  EXPECT_FALSE(watch.Look(At(5, 500))) << "computed since the last look";
  EXPECT_FALSE(watch.Look(At(6, 500)));
  EXPECT_TRUE(watch.Look(At(6, 500)));
}

TEST(IdleWatchTest, OnceForEachQuietTime) {
  IdleWatch watch;
  EXPECT_TRUE(watch.Look(At(0, 60)));
  watch.Trimmed(At(0, 50));
  EXPECT_FALSE(watch.Look(At(0, 50))) << "nothing more to give back";
  EXPECT_FALSE(watch.Look(At(1, 300)));
  EXPECT_TRUE(watch.Look(At(1, 300)));
  watch.Trimmed(At(1, 52));
  EXPECT_FALSE(watch.Look(At(1, 52)));
}

// It trimmed while a large message was on its way: that is no measure of what
// can go when the call is over.
TEST(IdleWatchTest, ATrimAmidABusyTimeIsNotTheLast) {
  IdleWatch watch;
  EXPECT_TRUE(watch.Look(At(0, 500)));
  watch.Trimmed(At(0, 480));
  EXPECT_FALSE(watch.Look(At(1, 300)));
  EXPECT_TRUE(watch.Look(At(1, 300)));
}

// A message that is refused computes nothing, but it was buffered.
TEST(IdleWatchTest, MemoryThatGrewWithoutComputingGoesBackToo) {
  IdleWatch watch;
  watch.Trimmed(At(0, 50));
  EXPECT_TRUE(watch.Look(At(0, 250)));
}

TEST(IdleWatchTest, NotWhileAnybodyIsInside) {
  IdleWatch watch;
  ProcessLoad inside = At(0, 500);
  inside.requests = 1;
  EXPECT_FALSE(watch.Look(inside));
  EXPECT_FALSE(watch.Look(inside));
  EXPECT_TRUE(watch.Look(At(0, 500)));
}

// Trims as often as it does while it looks ten times, each 1 ms after the last;
// -1: it did not look so often within a minute.
int TrimsOfTenLooks() {
  std::promise<void> seen;
  std::atomic<int> trims = 0;
  // Only the trimmer's own thread looks at it.
  int looks = 0;
  const IdleTrimmer trimmer(
      absl::Milliseconds(1),
      [&] {
        if (++looks == 10) seen.set_value();
        return At(0, 500);
      },
      [&] { ++trims; });
  const bool over = seen.get_future().wait_for(std::chrono::minutes(1)) ==
                    std::future_status::ready;
  return over ? trims.load() : -1;
}

TEST(IdleTrimmerTest, TrimsOnceAndEndsAtOnce) {
  EXPECT_EQ(TrimsOfTenLooks(), 1);
}

TEST(IdleTrimmerTest, WithoutEndNothingIsTrimmed) {
  std::atomic<int> looks = 0;
  const IdleTrimmer never(
      absl::InfiniteDuration(),
      [&] {
        ++looks;
        return At(0, 500);
      },
      [] {});
  EXPECT_EQ(TrimsOfTenLooks(), 1);
  EXPECT_EQ(looks, 0);
}

}  // namespace
}  // namespace attn
