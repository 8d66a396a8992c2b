#include "client/library/call_retries.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "proto/codec/status_codec.h"

namespace attn {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1000);

absl::Status Unavailable() { return absl::UnavailableError("draining"); }
absl::Status Refused(absl::Duration delay) {
  return WithRetryDelay(absl::ResourceExhaustedError("the queue is full"),
                        delay);
}

// The waits of a call, all of whose attempts end with `status` at once.
std::vector<absl::Duration> WaitsOf(
    const absl::Status& status, const RetryPolicy& policy,
    Repeat repeat = Repeat::kAlways,
    absl::Duration deadline = absl::InfiniteDuration()) {
  RetryThrottle throttle(policy);
  CallRetries retries(policy, repeat, kStart + deadline, throttle);
  std::vector<absl::Duration> waits;
  absl::Time now = kStart;
  while (const auto wait = retries.WaitAfter(status, now)) {
    waits.push_back(*wait);
    now += *wait;
  }
  return waits;
}

TEST(CallRetries, TheFirstAttemptCounts) {
  for (const int attempts : {1, 2, 4, 7}) {
    EXPECT_EQ(WaitsOf(Unavailable(), {.max_attempts = attempts}).size(),
              static_cast<size_t>(attempts - 1));
  }
}

TEST(CallRetries, WaitsGrowByTheMultiplierUpToTheMaximum) {
  const RetryPolicy policy{.max_attempts = 6,
                           .initial_backoff = absl::Milliseconds(100),
                           .max_backoff = absl::Milliseconds(500),
                           .multiplier = 2,
                           .jitter = 0};
  const std::vector<absl::Duration> expected = {
      absl::Milliseconds(100), absl::Milliseconds(200), absl::Milliseconds(400),
      absl::Milliseconds(500), absl::Milliseconds(500)};
  EXPECT_EQ(WaitsOf(Unavailable(), policy), expected);
}

TEST(CallRetries, WaitsAreDrawnFromTheWholeOfTheJitter) {
  const RetryPolicy policy{.max_attempts = 2,
                           .initial_backoff = absl::Milliseconds(100),
                           .jitter = 0.2};
  constexpr int kDraws = 1000;
  std::vector<absl::Duration> waits;
  waits.reserve(kDraws);
  for (int i = 0; i < kDraws; ++i) {
    waits.push_back(WaitsOf(Unavailable(), policy).at(0));
  }
  const auto [least, most] = std::minmax_element(waits.begin(), waits.end());
  EXPECT_GE(*least, absl::Milliseconds(79.999));
  EXPECT_LE(*most, absl::Milliseconds(120.001));
  // One of 1000 even draws misses a tenth of the range once in 10^45 times.
  EXPECT_LT(*least, absl::Milliseconds(84));
  EXPECT_GT(*most, absl::Milliseconds(116));
}

TEST(CallRetries, NeverComesBackSoonerThanTheServerAsks) {
  const RetryPolicy policy{.max_attempts = 3,
                           .initial_backoff = absl::Milliseconds(100),
                           .multiplier = 5,
                           .jitter = 0};
  const std::vector<absl::Duration> expected = {absl::Milliseconds(300),
                                                absl::Milliseconds(500)};
  EXPECT_EQ(WaitsOf(Refused(absl::Milliseconds(300)), policy), expected);
}

TEST(CallRetries, WhatNeverFitsIsNotTriedAgain) {
  EXPECT_TRUE(WaitsOf(absl::ResourceExhaustedError("too large"), {}).empty());
}

TEST(CallRetries, NothingButTheTwoCodesIsTriedAgain) {
  for (int code = 0; code <= 16; ++code) {
    const auto named = static_cast<absl::StatusCode>(code);
    if (named == absl::StatusCode::kUnavailable ||
        named == absl::StatusCode::kResourceExhausted) {
      continue;
    }
    EXPECT_TRUE(WaitsOf(absl::Status(named, "words"), {}).empty()) << named;
  }
}

TEST(CallRetries, AWaitThatWouldOutlastTheDeadlineIsNotBegun) {
  const RetryPolicy policy{
      .initial_backoff = absl::Milliseconds(100), .multiplier = 2, .jitter = 0};
  const auto waits = [&](absl::Duration deadline) {
    return WaitsOf(Unavailable(), policy, Repeat::kAlways, deadline).size();
  };
  EXPECT_EQ(waits(absl::Milliseconds(100)), 0U);
  EXPECT_EQ(waits(absl::Milliseconds(101)), 1U);
  EXPECT_EQ(waits(absl::Milliseconds(300)), 1U);
  EXPECT_EQ(waits(absl::Milliseconds(301)), 2U);
  EXPECT_TRUE(WaitsOf(Refused(absl::Hours(1)), policy, Repeat::kAlways,
                      absl::Minutes(1))
                  .empty());
}

TEST(CallRetries, ACallThatMustNotBeMadeTwiceWaitsForTheServersWord) {
  EXPECT_TRUE(WaitsOf(Unavailable(), {}, Repeat::kIfRefused).empty());
  EXPECT_FALSE(
      WaitsOf(Refused(absl::ZeroDuration()), {}, Repeat::kIfRefused).empty());
  EXPECT_TRUE(WaitsOf(Unavailable(), {}, Repeat::kNever).empty());
  EXPECT_TRUE(
      WaitsOf(Refused(absl::ZeroDuration()), {}, Repeat::kNever).empty());
}

TEST(CallRetries, CallsOfOneServerShareItsTokens) {
  const RetryPolicy policy{.max_attempts = 3, .max_tokens = 10};
  RetryThrottle throttle(policy);
  const auto attempts = [&] {
    CallRetries retries(policy, Repeat::kAlways, absl::InfiniteFuture(),
                        throttle);
    int made = 1;
    while (retries.WaitAfter(Unavailable(), kStart).has_value()) ++made;
    return made;
  };
  EXPECT_EQ(attempts(), 3);  // 7 are left,
  EXPECT_EQ(attempts(), 2);  // 5,
  EXPECT_EQ(attempts(), 1);
}

}  // namespace
}  // namespace attn
