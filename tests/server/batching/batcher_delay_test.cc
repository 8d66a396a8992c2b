// Requests that wait for company: --max-queue-delay-us.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/batching/fake_clock.h"
#include "tests/server/batching/fake_item.h"

namespace attn {
namespace {

// With a clock that stands still, only the budget ends the wait.
TEST(BatcherDelayTest, ARequestWaitsForCompanyUpToTheBudget) {
  FakeClock clock;
  std::vector<std::pair<int64_t, int64_t>> batches;
  Batcher batcher({.max_batch_tokens = 160,
                   .max_queue_delay = absl::Hours(1),
                   .on_batch =
                       [&batches](const BatchCount& batch) {
                         batches.emplace_back(batch.requests, batch.tokens);
                       }},
                  clock);
  std::vector<std::shared_ptr<FakeItem>> items;
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(batches.empty());
    items.push_back(std::make_shared<FakeItem>(10));
    batcher.Schedule(items.back());
  }
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0], std::make_pair(int64_t{16}, int64_t{160}));
}

// Of 160 tokens, 40 are kept for small requests.
TEST(BatcherDelayTest, LargeRequestsWaitUpToTheirShareOfTheBudget) {
  FakeClock clock;
  Batcher batcher({.max_batch_tokens = 160, .max_queue_delay = absl::Hours(1)},
                  clock);
  const auto first = std::make_shared<FakeItem>(60);
  const auto second = std::make_shared<FakeItem>(60);
  batcher.Schedule(first);
  EXPECT_EQ(first->starts(), 0);
  batcher.Schedule(second);
  EXPECT_EQ(first->starts() + second->starts(), 2);
}

TEST(BatcherDelayTest, ARequestDoesNotWaitLongerThanTheDelay) {
  FakeClock clock;
  Batcher batcher({.max_queue_delay = absl::Hours(1)}, clock);
  const auto item = std::make_shared<FakeItem>(10);
  batcher.Schedule(item);
  clock.AdvanceMilliseconds(3599'999);
  batcher.StartDue();
  EXPECT_EQ(item->starts(), 0);
  clock.AdvanceMilliseconds(1);
  batcher.StartDue();
  EXPECT_EQ(item->starts(), 1);
}

TEST(BatcherDelayTest, TheAlarmStartsWhatIsDue) {
  Batcher batcher({.max_queue_delay = absl::Milliseconds(1)},
                  Clock::Monotonic());
  const auto item = std::make_shared<FakeItem>(10);
  batcher.Schedule(item);
  while (item->starts() == 0) std::this_thread::yield();
  const auto second = std::make_shared<FakeItem>(10);
  batcher.Schedule(second);
  batcher.Finished(*item);
  while (second->starts() == 0) std::this_thread::yield();
}

TEST(BatcherDelayTest, AFullQueueWaitsForNoMoreCompany) {
  FakeClock clock;
  Batcher batcher({.max_queue_size = 2, .max_queue_delay = absl::Hours(1)},
                  clock);
  const auto first = std::make_shared<FakeItem>(10);
  const auto second = std::make_shared<FakeItem>(10);
  batcher.Schedule(first);
  EXPECT_EQ(first->starts(), 0);
  batcher.Schedule(second);
  EXPECT_EQ(first->starts() + second->starts(), 2);
}

// Counts how often somebody looks at it.
class CountingClock : public Clock {
 public:
  absl::Time Now() const override {
    ++looks_;
    return Clock::Monotonic().Now();
  }
  int64_t looks() const { return looks_; }

 private:
  mutable std::atomic<int64_t> looks_{0};
};

// Two of them are beyond the budget, and a worker is free.
TEST(BatcherDelayTest, TheAlarmSleepsWhileADueRequestHasNoRoom) {
  CountingClock clock;
  Batcher batcher({.parallelism = 2, .max_queue_delay = absl::Milliseconds(1)},
                  clock);
  const auto first = std::make_shared<FakeItem>(10000);
  const auto second = std::make_shared<FakeItem>(10000);
  batcher.Schedule(first);
  while (first->starts() == 0) std::this_thread::yield();
  batcher.Schedule(second);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(second->starts(), 0);
  EXPECT_LT(clock.looks(), 100);
  batcher.Finished(*first);
  EXPECT_EQ(second->starts(), 1);
}

}  // namespace
}  // namespace attn
