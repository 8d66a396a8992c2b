#include "client/library/retry_throttle.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(RetryThrottle, StopsAtHalfOfTheTokens) {
  RetryThrottle throttle({.max_tokens = 10, .token_ratio = 0.5});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(throttle.RecordFailure()) << i;
  EXPECT_FALSE(throttle.RecordFailure());  // 5 are left.
}

TEST(RetryThrottle, SuccessesGiveTheRatioBack) {
  RetryThrottle throttle({.max_tokens = 10, .token_ratio = 0.5});
  for (int i = 0; i < 5; ++i) throttle.RecordFailure();
  throttle.RecordSuccess();
  throttle.RecordSuccess();  // 6
  EXPECT_FALSE(throttle.RecordFailure());
  for (int i = 0; i < 3; ++i) throttle.RecordSuccess();  // 6.5
  EXPECT_TRUE(throttle.RecordFailure());
}

TEST(RetryThrottle, HoldsNoMoreThanAllAndNoLessThanNone) {
  RetryThrottle throttle({.max_tokens = 4, .token_ratio = 1});
  for (int i = 0; i < 100; ++i) throttle.RecordSuccess();
  EXPECT_TRUE(throttle.RecordFailure());
  EXPECT_FALSE(throttle.RecordFailure());
  for (int i = 0; i < 100; ++i) throttle.RecordFailure();
  for (int i = 0; i < 3; ++i) throttle.RecordSuccess();
  EXPECT_FALSE(throttle.RecordFailure());
  throttle.RecordSuccess();
  throttle.RecordSuccess();
  EXPECT_TRUE(throttle.RecordFailure());
}

TEST(RetryThrottle, WithoutTokensThereIsNoBound) {
  RetryThrottle throttle({.max_tokens = 0});
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(throttle.RecordFailure());
}

// They were rounded to none, which is no bound and no way back.
TEST(RetryThrottle, AFractionOfATokenIsNotNone) {
  RetryThrottle tight({.max_tokens = 0.0001});
  EXPECT_FALSE(tight.RecordFailure());
  RetryThrottle slow({.max_tokens = 3, .token_ratio = 0.0001});
  EXPECT_TRUE(slow.RecordFailure());
  for (int i = 0; i < 1000; ++i) slow.RecordSuccess();
  EXPECT_TRUE(slow.RecordFailure());
}

TEST(RetryThrottle, CountsEveryThreadsCalls) {
  RetryThrottle throttle({.max_tokens = 1000, .token_ratio = 1});
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&throttle] {
      for (int i = 0; i < 110; ++i) throttle.RecordFailure();
      for (int i = 0; i < 10; ++i) throttle.RecordSuccess();
    });
  }
  for (std::thread& thread : threads) thread.join();
  // 600 are left.
  for (int i = 0; i < 99; ++i) EXPECT_TRUE(throttle.RecordFailure()) << i;
  EXPECT_FALSE(throttle.RecordFailure());
}

}  // namespace
}  // namespace attn
