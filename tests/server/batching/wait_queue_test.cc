#include "server/batching/wait_queue.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/batching/fake_item.h"

namespace attn {
namespace {

constexpr absl::Duration kAgeing = absl::Milliseconds(100);

absl::Time At(int milliseconds) {
  return absl::UnixEpoch() + absl::Milliseconds(milliseconds);
}

class WaitQueueTest : public ::testing::Test {
 protected:
  const BatchItem* Push(Priority priority, int milliseconds) {
    auto item = std::make_shared<FakeItem>(10, priority);
    queue_.Push(item, At(milliseconds));
    items_.push_back(item);
    return item.get();
  }
  std::vector<const BatchItem*> PopAll() {
    std::vector<const BatchItem*> order;
    while (!queue_.empty()) order.push_back(queue_.Pop(At(1000)).get());
    return order;
  }

  WaitQueue queue_{kAgeing};
  std::vector<std::shared_ptr<FakeItem>> items_;
};

using Order = std::vector<const BatchItem*>;

TEST_F(WaitQueueTest, EqualsAreFirstInFirstOut) {
  const auto* a = Push(Priority::kNormal, 0);
  const auto* b = Push(Priority::kNormal, 0);
  const auto* c = Push(Priority::kNormal, 1);
  EXPECT_EQ(PopAll(), Order({a, b, c}));
}

TEST_F(WaitQueueTest, AHigherPriorityGoesFirst) {
  const auto* low = Push(Priority::kLow, 0);
  const auto* normal = Push(Priority::kNormal, 1);
  const auto* high = Push(Priority::kHigh, 2);
  EXPECT_EQ(PopAll(), Order({high, normal, low}));
}

TEST_F(WaitQueueTest, WhoHasWaitedLongEnoughGoesBeforeAHigherPriority) {
  const auto* low = Push(Priority::kLow, 0);
  const auto* normal = Push(Priority::kNormal, 101);
  const auto* early = Push(Priority::kHigh, 199);
  const auto* late = Push(Priority::kHigh, 202);
  EXPECT_EQ(PopAll(), Order({early, low, normal, late}));
}

// A flood of high priority that never ends lets a low one through after two
// ageing times.
TEST_F(WaitQueueTest, NobodyStarves) {
  const auto* low = Push(Priority::kLow, 0);
  for (int now = 0; now < 1000; ++now) {
    Push(Priority::kHigh, now);
    Push(Priority::kHigh, now);
    if (queue_.Pop(At(now)).get() != low) continue;
    // Beside the one that is taken, another came each millisecond.
    EXPECT_LE(now, 2 * 2 * 100 + 2);
    return;
  }
  FAIL() << "the request of low priority still waits";
}

TEST_F(WaitQueueTest, TokensAndTheOldestAreThoseOfAllThatWait) {
  EXPECT_EQ(queue_.oldest(), absl::InfiniteFuture());
  Push(Priority::kLow, 3);
  Push(Priority::kHigh, 5);
  EXPECT_EQ(queue_.tokens(), 20);
  EXPECT_EQ(queue_.oldest(), At(3));
  queue_.Pop(At(9));
  EXPECT_EQ(queue_.oldest(), At(3));
  EXPECT_EQ(queue_.Remove(*items_[0]).get(), items_[0].get());
  EXPECT_EQ(queue_.Remove(*items_[0]), nullptr);
  EXPECT_EQ(queue_.tokens(), 0);
  EXPECT_EQ(queue_.oldest(), absl::InfiniteFuture());
}

TEST_F(WaitQueueTest, SweepTakesTheCancelledAndNoOther) {
  const auto* stays = Push(Priority::kNormal, 0);
  const auto* goes = Push(Priority::kNormal, 0);
  items_[1]->Cancel();
  BatchItems late;
  queue_.Sweep(late);
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].get(), goes);
  EXPECT_EQ(PopAll(), Order({stays}));
}

TEST_F(WaitQueueTest, TheExpectedWaitIsTheLeastOfTheLastEight) {
  Push(Priority::kNormal, 0);  // There is one more all the time.
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(queue_.ExpectedWait(Priority::kNormal), absl::ZeroDuration());
    Push(Priority::kNormal, 0);
    queue_.Pop(At(50 + i));
  }
  EXPECT_EQ(queue_.ExpectedWait(Priority::kNormal), absl::Milliseconds(50));
  EXPECT_EQ(queue_.ExpectedWait(Priority::kHigh), absl::ZeroDuration());
  Push(Priority::kNormal, 0);
  queue_.Pop(At(70));
  EXPECT_EQ(queue_.ExpectedWait(Priority::kNormal), absl::Milliseconds(51));
}

// Others that still wait say nothing about it.
TEST_F(WaitQueueTest, WhereNobodyOfThatPriorityWaitsNoWaitIsExpected) {
  for (int i = 0; i < 9; ++i) Push(Priority::kNormal, 0);
  Push(Priority::kLow, 0);
  for (int i = 0; i < 8; ++i) queue_.Pop(At(50));
  EXPECT_EQ(queue_.ExpectedWait(Priority::kNormal), absl::Milliseconds(50));
  queue_.Pop(At(60));
  ASSERT_FALSE(queue_.empty());
  EXPECT_EQ(queue_.ExpectedWait(Priority::kNormal), absl::ZeroDuration());
}

}  // namespace
}  // namespace attn
