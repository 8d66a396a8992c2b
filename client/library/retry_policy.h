// When a call that failed is made again, and how soon, after gRPC's gRFC A6.
// gRPC's own retries go by the code alone, and a server that is full for the
// moment and a call that never fits are both RESOURCE_EXHAUSTED.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace attn {

// How often a call may be made without harm.
enum class Repeat : uint8_t {
  kNever,
  // Again only if the server says that it did nothing.
  kIfRefused,
  // Also if nobody knows whether it was done: twice is as good as once.
  kAlways,
};

// Two things are tried again: RESOURCE_EXHAUSTED for which the server names a
// time to come back (google.rpc.RetryInfo), and UNAVAILABLE of calls that are
// Repeat::kAlways. All attempts together have the call's one deadline; a wait
// that would outlast it is not begun. A value.
struct RetryPolicy {
  // The first one counts; 1: nothing is tried again.
  int max_attempts = 4;
  // Wait n is initial_backoff * multiplier^(n - 1), at most max_backoff, times
  // an even draw from 1 - jitter to 1 + jitter, so that clients that failed
  // together do not return together. It is never shorter than the server asks.
  // The defaults wait 0.7 s in all: a short break is bridged, a person hardly
  // waits.
  absl::Duration initial_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(2);
  double multiplier = 2;
  double jitter = 0.2;
  // An attempt that failed so takes one of max_tokens, a success gives
  // token_ratio back; at half of max_tokens or below nothing is tried again.
  // In the long run there is thus one retry for ten calls that succeed at most,
  // so that clients do not hold down a server that is in trouble. max_tokens 0:
  // there is no such bound.
  double max_tokens = 100;
  double token_ratio = 0.1;
};

// Of max_tokens and token_ratio, as in gRPC's own.
inline constexpr double kMostRetryTokens = 1000;

// INVALID_ARGUMENT names the field, as "retry.<field>", that cannot be meant.
absl::Status CheckRetryPolicy(const RetryPolicy& policy);

}  // namespace attn
