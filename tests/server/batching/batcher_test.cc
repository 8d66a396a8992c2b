#include "server/batching/batcher.h"

#include <memory>
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
                  .on_batch =
                      [this](int64_t requests, int64_t tokens) {
                        batches_.emplace_back(requests, tokens);
                      }},
                 clock_) {}

  std::shared_ptr<FakeItem> Schedule(int64_t tokens) {
    auto item = std::make_shared<FakeItem>(tokens);
    batcher_.Schedule(item);
    return item;
  }

  FakeClock clock_;
  Batches batches_;
  Batcher batcher_;
};

TEST_F(BatcherTest, AnIdleServerStartsARequestAtOnce) {
  EXPECT_EQ(Schedule(50)->starts(), 1);
  EXPECT_EQ(batches_, Batches({{1, 50}}));
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
