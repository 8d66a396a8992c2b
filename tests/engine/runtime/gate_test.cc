#include "engine/runtime/gate.h"

#include <atomic>
#include <latch>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(GateTest, LetsInUntilItCloses) {
  Gate gate;
  EXPECT_FALSE(gate.closed());
  EXPECT_TRUE(gate.Enter().admitted());
  gate.Close();
  gate.Close();
  EXPECT_TRUE(gate.closed());
  EXPECT_FALSE(gate.Enter().admitted());
}

TEST(GateTest, CountsThoseInside) {
  Gate gate;
  Gate::Pass first = gate.Enter();
  {
    const Gate::Pass second = gate.Enter();
    EXPECT_EQ(gate.inside(), 2);
  }
  EXPECT_EQ(gate.inside(), 1);
  first = Gate::Pass();
  EXPECT_EQ(gate.inside(), 0);
}

TEST(GateTest, AMovedPassLeavesOnce) {
  Gate gate;
  Gate::Pass entered = gate.Enter();
  {
    Gate::Pass pass = std::move(entered);
    EXPECT_EQ(gate.inside(), 1);
    Gate::Pass other = gate.Enter();
    EXPECT_EQ(gate.inside(), 2);
    other = std::move(pass);
    EXPECT_TRUE(other.admitted());
  }
  EXPECT_EQ(gate.inside(), 0);
}

TEST(GateTest, ClosingKeepsThoseInside) {
  Gate gate;
  const Gate::Pass pass = gate.Enter();
  gate.Close();
  EXPECT_EQ(gate.inside(), 1);
  EXPECT_FALSE(gate.WaitUntilEmpty(absl::ZeroDuration()));
  EXPECT_FALSE(gate.WaitUntilEmpty(absl::Milliseconds(1)));
  EXPECT_FALSE(gate.WaitUntilEmpty(-absl::InfiniteDuration()));
}

TEST(GateTest, AnEmptyGateIsNotWaitedFor) {
  Gate gate;
  EXPECT_TRUE(gate.WaitUntilEmpty(absl::ZeroDuration()));
  EXPECT_TRUE(gate.WaitUntilEmpty(absl::InfiniteDuration()));
}

TEST(GateTest, WaitsForTheLastOneInside) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> left{0};
    std::optional<Gate> gate(std::in_place);
    std::vector<std::thread> threads;
    std::latch entered(4);
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        const Gate::Pass pass = gate->Enter();
        entered.arrive_and_wait();
        ++left;
      });
    }
    entered.arrive_and_wait();
    gate->Close();
    EXPECT_TRUE(gate->WaitUntilEmpty(absl::InfiniteDuration()));
    EXPECT_EQ(left, 3);
    // Who waited may destroy the gate at once.
    gate.reset();
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace attn
