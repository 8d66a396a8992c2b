#include "server/rpc/reply_watch.h"

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr absl::Duration kGrace = absl::Minutes(1);
const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

TEST(ReplySendBy, IsTheGraceAfterTheDeadline) {
  EXPECT_EQ(ReplySendBy(kNow, kNow + absl::Seconds(5), kGrace, 0),
            kNow + absl::Seconds(65));
}

TEST(ReplySendBy, NoDeadlineCountsForMoreThanAnHour) {
  for (const absl::Time deadline :
       {kNow + absl::Hours(2), absl::InfiniteFuture()}) {
    EXPECT_EQ(ReplySendBy(kNow, deadline, kGrace, 0), kNow + absl::Minutes(61));
  }
}

// A layer may be written later than its deadline.
TEST(ReplySendBy, AReplyThatIsLateHasTheWholeGrace) {
  for (const absl::Time deadline :
       {kNow - absl::Hours(2), absl::InfinitePast()}) {
    EXPECT_EQ(ReplySendBy(kNow, deadline, kGrace, 0), kNow + kGrace);
  }
}

// Otherwise who reads 256 MiB at 4 MiB/s would be cut half-way.
TEST(ReplySendBy, ALongReplyHasASecondMoreForEachMebibyte) {
  const absl::Time deadline = kNow + absl::Seconds(5);
  EXPECT_EQ(ReplySendBy(kNow, deadline, kGrace, int64_t{256} << 20),
            deadline + kGrace + absl::Seconds(256));
  EXPECT_EQ(ReplySendBy(kNow, deadline, kGrace, 1 << 19),
            deadline + kGrace + absl::Milliseconds(500));
}

}  // namespace
}  // namespace attn
