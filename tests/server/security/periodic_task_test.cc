#include "server/security/periodic_task.h"

#include <atomic>
#include <chrono>
#include <future>

#include "gtest/gtest.h"

namespace attn {
namespace {

// Returns when a task of another thread was done so many times; false: it was
// not within a minute.
bool IsDoneSoOften(int count) {
  std::promise<void> often;
  // Only the task's own thread looks at it.
  int done = 0;
  const PeriodicTask task(absl::Milliseconds(1), [&] {
    if (++done == count) often.set_value();
  });
  return often.get_future().wait_for(std::chrono::minutes(1)) ==
         std::future_status::ready;
}

TEST(PeriodicTask, IsDoneAgainAndAgain) { EXPECT_TRUE(IsDoneSoOften(3)); }

TEST(PeriodicTask, EndsWithoutWaitingForItsInterval) {
  std::atomic<int> count = 0;
  {
    const PeriodicTask task(absl::Hours(24), [&count] { ++count; });
  }
  EXPECT_EQ(count, 0);
}

// A clock counts to 292 years: now and so much more must not be in the past.
TEST(PeriodicTask, AnIntervalWithoutEndIsNotOver) {
  std::atomic<int> count = 0;
  const PeriodicTask centuries(absl::Seconds(9999999999), [&] { ++count; });
  const PeriodicTask never(absl::InfiniteDuration(), [&] { ++count; });
  EXPECT_TRUE(IsDoneSoOften(20));
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace attn
