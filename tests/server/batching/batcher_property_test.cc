// Whatever happens in whatever order on several threads, every request is
// started or refused exactly once, and the budget holds.
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/batching/fake_clock.h"
#include "tests/server/batching/fake_item.h"

namespace attn {
namespace {

constexpr int64_t kBudget = 1600;
constexpr int64_t kLargest = 3000;

// Tokens of what has been started and not finished, and their peak.
struct Running {
  std::atomic<int64_t> tokens{0};
  std::atomic<int64_t> peak{0};
};

class CountedItem : public FakeItem {
 public:
  CountedItem(int64_t tokens, Running& running)
      : FakeItem(tokens), running_(running) {}

  void Start() override {
    const int64_t now = running_.tokens += tokens();
    int64_t peak = running_.peak;
    while (now > peak && !running_.peak.compare_exchange_weak(peak, now)) {
    }
    FakeItem::Start();
  }

 private:
  Running& running_;
};

using Items = std::vector<std::shared_ptr<CountedItem>>;

// Ends those of `open` that were started; forgets those that were refused.
void FinishSome(Batcher& batcher, Running& running, Items& open) {
  for (size_t i = 0; i < open.size();) {
    const std::shared_ptr<CountedItem> item = open[i];
    if (item->starts() + item->refusals() == 0) {
      ++i;
      continue;
    }
    open[i] = open.back();
    open.pop_back();
    if (item->starts() == 0) continue;
    running.tokens -= item->tokens();
    batcher.Finished(*item);
  }
}

// Schedules, cancels and finishes its own items in a random order.
void Work(Batcher& batcher, Running& running, uint32_t seed, Items& items) {
  constexpr int kSteps = 2000;
  std::minstd_rand random(seed);
  Items open;
  for (int step = 0; step < kSteps; ++step) {
    const bool small = random() % 2 == 0;
    const auto tokens =
        static_cast<int64_t>(random() % (small ? 100 : kLargest));
    items.push_back(std::make_shared<CountedItem>(tokens, running));
    open.push_back(items.back());
    batcher.Schedule(items.back());
    if (random() % 4 == 0) {
      const auto& victim = items[random() % items.size()];
      victim->Cancel();
      batcher.Withdraw(*victim);
    }
    if (random() % 4 == 0) FinishSome(batcher, running, open);
  }
  while (!open.empty()) {
    FinishSome(batcher, running, open);
    std::this_thread::yield();
  }
}

TEST(BatcherProperty, NothingIsLostAndNothingHappensTwice) {
  constexpr int kThreads = 4;
  FakeClock clock;
  Batcher batcher(
      {.max_queue_size = 20, .max_batch_tokens = kBudget, .on_batch = nullptr},
      clock);
  Running running;
  std::vector<Items> items(kThreads);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { Work(batcher, running, i + 1, items[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  int started = 0;
  for (const Items& list : items) {
    for (const auto& item : list) {
      EXPECT_EQ(item->starts() + item->refusals(), 1);
      started += item->starts();
    }
  }
  EXPECT_GT(started, 0);
  EXPECT_EQ(batcher.depth(), 0);
  EXPECT_EQ(batcher.running(), 0);
  EXPECT_EQ(running.tokens, 0);
  // The budget, one large request and one small one.
  EXPECT_LE(running.peak, kBudget + kLargest + kBudget / 16);
}

}  // namespace
}  // namespace attn
