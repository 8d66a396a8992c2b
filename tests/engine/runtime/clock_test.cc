#include "engine/runtime/clock.h"

#include <chrono>

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(ClockTest, TheMonotonicClockFollowsTheMachines) {
  const Clock& clock = Clock::Monotonic();
  for (int i = 0; i < 1000; ++i) {
    // Whatever lies between two readings of the one lies between those of the
    // other, in the same unit.
    const absl::Time first = clock.Now();
    const auto start = std::chrono::steady_clock::now();
    const auto end = std::chrono::steady_clock::now();
    const absl::Time last = clock.Now();
    EXPECT_GE(last - first, absl::FromChrono(end - start));
    EXPECT_LE(first - absl::UnixEpoch(),
              absl::FromChrono(start.time_since_epoch()));
  }
}

}  // namespace
}  // namespace attn
