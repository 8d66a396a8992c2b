#include "engine/runtime/cancellation.h"

#include "gtest/gtest.h"
#include "tests/engine/runtime/fake_clock.h"

namespace attn {
namespace {

TEST(CancellationTest, ACallMayRunUntilItsDeadline) {
  FakeClock clock;
  const Cancellation cancellation(clock, clock.Now() + absl::Seconds(1));
  EXPECT_TRUE(cancellation.Check().ok());
  clock.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
  EXPECT_TRUE(cancellation.Check().ok());
  clock.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(cancellation.Check().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(CancellationTest, WithoutADeadlineItNeverIsLate) {
  FakeClock clock;
  const Cancellation cancellation(clock, absl::InfiniteFuture());
  clock.Advance(absl::Hours(24 * 365 * 100));
  EXPECT_TRUE(cancellation.Check().ok());
}

TEST(CancellationTest, ADeadlineBeforeTheStartIsLateAtOnce) {
  FakeClock clock;
  const Cancellation cancellation(clock, absl::InfinitePast());
  EXPECT_EQ(cancellation.Check().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(CancellationTest, ACancelledCallSaysSoEvenIfItIsLateToo) {
  FakeClock clock;
  Cancellation cancellation(clock, clock.Now() + absl::Seconds(1));
  cancellation.Cancel();
  EXPECT_EQ(cancellation.Check().code(), absl::StatusCode::kCancelled);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(cancellation.Check().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(cancellation.deadline(), absl::FromUnixSeconds(2));
}

}  // namespace
}  // namespace attn
