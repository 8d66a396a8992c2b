#include "server/batching/refusal.h"

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(Refusal, ABusyServerIsResourceExhaustedAndWorthARetry) {
  for (const Refusal reason : {Refusal::kQueueFull, Refusal::kMemory}) {
    const absl::Status status = Refuse(reason, "busy");
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(RefusalOf(status), reason);
    EXPECT_GT(RetryDelayFor(status), absl::ZeroDuration());
  }
}

TEST(Refusal, WhatNeverFitsIsNotWorthARetry) {
  const absl::Status status = Refuse(Refusal::kTooLarge, "too large");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(RetryDelayFor(status).has_value());
}

TEST(Refusal, ADrainingServerIsUnavailable) {
  EXPECT_EQ(Refuse(Refusal::kDraining, "stopping").code(),
            absl::StatusCode::kUnavailable);
}

TEST(Refusal, OtherErrorsAreNoRefusals) {
  EXPECT_FALSE(RefusalOf(absl::InternalError("x")).has_value());
  EXPECT_FALSE(RefusalOf(absl::OkStatus()).has_value());
}

}  // namespace
}  // namespace attn
