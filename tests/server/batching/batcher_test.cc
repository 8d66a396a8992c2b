#include "server/batching/batcher.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/batching/refusal.h"
#include "tests/server/batching/fake_clock.h"
#include "tests/server/batching/fake_item.h"

namespace attn {
namespace {

using Batches = std::vector<std::pair<int64_t, int64_t>>;

// Budget 1600: up to 100 tokens are small, 400 are kept for small ones.
class BatcherTest : public ::testing::Test {
 protected:
  BatcherTest()
      : batcher_({.max_queue_size = 3,
                  .max_batch_tokens = 1600,
                  .parallelism = 2,
                  .on_batch =
                      [this](const BatchCount& batch) {
                        batches_.emplace_back(batch.requests, batch.tokens);
                        ready_.push_back(batch.ready);
                      }},
                 clock_) {}

  std::shared_ptr<FakeItem> Schedule(int64_t tokens) {
    auto item = std::make_shared<FakeItem>(tokens);
    batcher_.Schedule(item);
    return item;
  }

  FakeClock clock_;
  Batches batches_;
  // Of each batch.
  std::vector<int64_t> ready_;
  Batcher batcher_;
};

TEST_F(BatcherTest, AnIdleServerStartsARequestAtOnce) {
  EXPECT_EQ(Schedule(50)->starts(), 1);
  EXPECT_EQ(batches_, Batches({{1, 50}}));
}

TEST_F(BatcherTest, AnImmediateRequestNeverWaits) {
  Schedule(5000);
  Schedule(50);
  Schedule(50);
  EXPECT_EQ(Schedule(50)->starts(), 0);
  const auto item = std::make_shared<FakeItem>(50);
  item->MakeImmediate();
  const int64_t running = batcher_.running();
  batcher_.Schedule(item);
  EXPECT_EQ(item->starts(), 1);
  EXPECT_EQ(batcher_.running(), running);
  batcher_.Finished(*item);
  EXPECT_EQ(batcher_.running(), running);
  batcher_.Close();
  const auto late = std::make_shared<FakeItem>(50);
  late->MakeImmediate();
  batcher_.Schedule(late);
  EXPECT_EQ(RefusalOf(late->status()), Refusal::kDraining);
}

TEST_F(BatcherTest, ARequestBeyondTheBudgetRunsAlone) {
  EXPECT_EQ(Schedule(5000)->starts(), 1);
  EXPECT_EQ(Schedule(200)->starts(), 0);
}

TEST_F(BatcherTest, ASmallRequestEntersWhileALargeOneRuns) {
  Schedule(5000);
  EXPECT_EQ(Schedule(10)->starts(), 1);
  EXPECT_EQ(Schedule(100)->starts(), 1);
}

TEST_F(BatcherTest, ASmallRequestOvertakesALargeOneThatWaits) {
  Schedule(5000);
  const auto waits = Schedule(5000);
  EXPECT_EQ(Schedule(10)->starts(), 1);
  EXPECT_EQ(waits->starts(), 0);
}

TEST_F(BatcherTest, WhatWaitsStartsTogetherUpToTheBudget) {
  const auto first = Schedule(1200);
  const auto a = Schedule(500);
  const auto b = Schedule(600);
  const auto c = Schedule(200);
  EXPECT_EQ(a->starts() + b->starts() + c->starts(), 0);
  batcher_.Finished(*first);
  // 500 + 600 leave 100 of the 1200 that large requests may have.
  EXPECT_EQ(a->starts(), 1);
  EXPECT_EQ(b->starts(), 1);
  EXPECT_EQ(c->starts(), 0);
  EXPECT_EQ(batches_.back(), std::make_pair(int64_t{2}, int64_t{1100}));
  // `c` could have been started too, but for the room.
  EXPECT_EQ(ready_, std::vector<int64_t>({1, 3}));
}

// While a request runs on each worker, nothing is gained by starting more.
TEST_F(BatcherTest, SmallRequestsThatHadToWaitGoTogether) {
  const auto a = Schedule(50);
  const auto b = Schedule(60);
  const auto c = Schedule(70);
  const auto d = Schedule(80);
  EXPECT_EQ(b->starts(), 1);
  EXPECT_EQ(c->starts() + d->starts(), 0);
  batcher_.Finished(*a);
  EXPECT_EQ(batches_, Batches({{1, 50}, {1, 60}, {2, 150}}));
}

TEST(BatcherGroupTest, WhatHadToWaitIsStartedAsOne) {
  FakeClock clock;
  std::vector<BatchItems> groups;
  Batcher batcher({.start_together =
                       [&groups](BatchItems items, const BatchCount& batch) {
                         EXPECT_EQ(batch.requests,
                                   static_cast<int64_t>(items.size()));
                         groups.push_back(std::move(items));
                       }},
                  clock);
  std::vector<std::shared_ptr<FakeItem>> items;
  for (int i = 0; i < 4; ++i) {
    items.push_back(std::make_shared<FakeItem>(10));
    batcher.Schedule(items.back());
  }
  EXPECT_EQ(items[0]->starts(), 1);
  EXPECT_TRUE(groups.empty());
  batcher.Finished(*items[0]);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0], BatchItems({items[1], items[2], items[3]}));
  for (int i = 1; i < 4; ++i) EXPECT_EQ(items[i]->starts(), 0);
}

TEST_F(BatcherTest, AmongThoseThatWaitAHigherPriorityStartsFirst) {
  const auto first = Schedule(5000);
  const auto normal = Schedule(800);
  const auto high = std::make_shared<FakeItem>(800, Priority::kHigh);
  batcher_.Schedule(high);
  batcher_.Finished(*first);
  EXPECT_EQ(high->starts(), 1);
  EXPECT_EQ(normal->starts(), 0);
}

// Eight have waited 50 ms, so the ninth will hardly start within 10.
TEST_F(BatcherTest, ADeadlineThatCannotBeMetIsRefusedOnArrival) {
  auto running = Schedule(5000);
  auto next = Schedule(5000);
  for (int i = 0; i < 8; ++i) {
    const auto after = Schedule(5000);
    clock_.AdvanceMilliseconds(50);
    batcher_.Finished(*running);
    running = std::exchange(next, after);
  }
  const auto arrive = [this](int64_t milliseconds) {
    auto item = std::make_shared<FakeItem>(
        5000, Priority::kNormal,
        clock_.Now() + absl::Milliseconds(milliseconds));
    batcher_.Schedule(item);
    return item;
  };
  const auto hopeless = arrive(10);
  EXPECT_EQ(hopeless->refusals(), 1);
  EXPECT_EQ(RefusalOf(hopeless->status()), Refusal::kDeadlineUnmeetable);
  EXPECT_EQ(arrive(1000)->refusals(), 0);
  // A small request does not stand in that queue.
  const auto small = std::make_shared<FakeItem>(
      10, Priority::kNormal, clock_.Now() + absl::Milliseconds(10));
  batcher_.Schedule(small);
  EXPECT_EQ(small->starts(), 1);
}

// Nobody cancels it: its deadline is not one that the transport knows.
TEST_F(BatcherTest, ALateRequestLeavesTheQueueAtItsDeadline) {
  Schedule(5000);
  const auto item = std::make_shared<FakeItem>(
      200, Priority::kNormal, clock_.Now() + absl::Milliseconds(10));
  batcher_.Schedule(item);
  item->Cancel();
  clock_.AdvanceMilliseconds(10);
  batcher_.StartDue();
  EXPECT_EQ(item->refusals(), 1);
  EXPECT_EQ(batcher_.depth(), 0);
}

TEST(BatcherAlarmTest, TheAlarmRefusesWhatIsLate) {
  const Clock& clock = Clock::Monotonic();
  Batcher batcher({}, clock);
  const auto first = std::make_shared<FakeItem>(50000);
  batcher.Schedule(first);
  const auto late = std::make_shared<FakeItem>(
      50000, Priority::kNormal, clock.Now() + absl::Milliseconds(1));
  late->Cancel();
  batcher.Schedule(late);
  while (late->refusals() == 0) std::this_thread::yield();
  EXPECT_EQ(batcher.depth(), 0);
}

TEST_F(BatcherTest, TheDeadTakeNoPlaceInAFullQueue) {
  Schedule(5000);
  for (int i = 0; i < 3; ++i) Schedule(200)->Cancel();
  EXPECT_EQ(Schedule(200)->refusals(), 0);
  EXPECT_EQ(batcher_.depth(), 1);
}

TEST_F(BatcherTest, ALaneIsFirstInFirstOut) {
  const auto first = Schedule(1200);
  const auto large = Schedule(1100);
  const auto after = Schedule(150);
  batcher_.Finished(*first);
  EXPECT_EQ(large->starts(), 1);
  // 1100 + 150 is beyond 1200, so `after` waits though it came in time.
  EXPECT_EQ(after->starts(), 0);
  batcher_.Finished(*large);
  EXPECT_EQ(after->starts(), 1);
}

TEST_F(BatcherTest, AFullQueueRefuses) {
  Schedule(5000);
  for (int i = 0; i < 3; ++i) Schedule(200);
  const auto refused = Schedule(200);
  EXPECT_EQ(refused->refusals(), 1);
  EXPECT_EQ(RefusalOf(refused->status()), Refusal::kQueueFull);
}

TEST_F(BatcherTest, AFullQueueKeepsNobodyOutWhoNeedNotWait) {
  Schedule(5000);
  for (int i = 0; i < 3; ++i) Schedule(200);
  EXPECT_EQ(Schedule(50)->starts(), 1);
}

TEST(BatcherQueueTest, WithoutPlacesInTheQueueAnIdleServerStillServes) {
  FakeClock clock;
  Batcher batcher({.max_queue_size = 0, .max_batch_tokens = 1600}, clock);
  const auto first = std::make_shared<FakeItem>(500);
  const auto second = std::make_shared<FakeItem>(500);
  batcher.Schedule(first);
  batcher.Schedule(second);
  EXPECT_EQ(first->starts(), 1);
  EXPECT_EQ(RefusalOf(second->status()), Refusal::kQueueFull);
}

TEST_F(BatcherTest, AWithdrawnRequestLeavesTheQueue) {
  Schedule(5000);
  const auto item = Schedule(200);
  item->Cancel();
  batcher_.Withdraw(*item);
  EXPECT_EQ(item->refusals(), 1);
  EXPECT_TRUE(absl::IsCancelled(item->status()));
  EXPECT_EQ(batcher_.depth(), 0);
}

TEST_F(BatcherTest, AStartedRequestCannotBeWithdrawn) {
  const auto item = Schedule(10);
  item->Cancel();
  batcher_.Withdraw(*item);
  EXPECT_EQ(item->refusals(), 0);
}

TEST_F(BatcherTest, ALateRequestIsRefusedInsteadOfStarted) {
  const auto first = Schedule(5000);
  const auto late = Schedule(200);
  const auto good = Schedule(200);
  late->Cancel();
  batcher_.Finished(*first);
  EXPECT_EQ(late->refusals(), 1);
  EXPECT_EQ(late->starts(), 0);
  EXPECT_EQ(good->starts(), 1);
}

TEST_F(BatcherTest, TheOldestAgeIsThatOfTheFirstThatWaits) {
  EXPECT_EQ(batcher_.oldest_age(), absl::ZeroDuration());
  const auto first = Schedule(5000);
  Schedule(200);
  clock_.AdvanceMilliseconds(30);
  Schedule(200);
  clock_.AdvanceMilliseconds(20);
  EXPECT_EQ(batcher_.depth(), 2);
  EXPECT_EQ(batcher_.oldest_age(), absl::Milliseconds(50));
  batcher_.Finished(*first);
  EXPECT_EQ(batcher_.oldest_age(), absl::ZeroDuration());
}

TEST_F(BatcherTest, AClosedBatcherDrainsAndRefusesNewcomers) {
  const auto first = Schedule(5000);
  const auto waits = Schedule(200);
  batcher_.Close();
  EXPECT_EQ(RefusalOf(Schedule(10)->status()), Refusal::kDraining);
  batcher_.Finished(*first);
  EXPECT_EQ(waits->starts(), 1);
}

TEST_F(BatcherTest, AllThatWaitCanBeRefused) {
  Schedule(5000);
  const auto item = Schedule(200);
  batcher_.RefuseWaiting(absl::UnavailableError("stop"));
  EXPECT_TRUE(absl::IsUnavailable(item->status()));
  EXPECT_EQ(batcher_.depth(), 0);
}

}  // namespace
}  // namespace attn
