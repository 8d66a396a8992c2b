#include "client/library/call_retries.h"

#include <algorithm>
#include <cmath>

#include "absl/random/random.h"
#include "proto/codec/status_codec.h"

namespace attn {
namespace {

// Whether the failure may pass and the call may be made again.
bool MayPass(const absl::Status& status, Repeat repeat) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return repeat == Repeat::kAlways;
    case absl::StatusCode::kResourceExhausted:
      // Without a time to come back the call never fits.
      return repeat != Repeat::kNever && RetryDelayOf(status).has_value();
    default:
      return false;
  }
}

}  // namespace

absl::Duration CallRetries::Backoff() const {
  const double growth = std::pow(policy_.multiplier, attempts_ - 1);
  const absl::Duration backoff =
      std::min(policy_.initial_backoff * growth, policy_.max_backoff);
  if (policy_.jitter == 0) return backoff;
  absl::InsecureBitGen random;
  return backoff * absl::Uniform(absl::IntervalClosed, random,
                                 1 - policy_.jitter, 1 + policy_.jitter);
}

std::optional<absl::Duration> CallRetries::WaitAfter(const absl::Status& status,
                                                     absl::Time now) {
  ++attempts_;
  if (status.ok()) throttle_.RecordSuccess();
  if (!MayPass(status, repeat_)) return std::nullopt;
  // In this order: what is not tried again counts too.
  if (!throttle_.RecordFailure()) return std::nullopt;
  if (attempts_ >= policy_.max_attempts) return std::nullopt;
  const absl::Duration wait =
      std::max(Backoff(), RetryDelayOf(status).value_or(absl::ZeroDuration()));
  if (now + wait >= end_) return std::nullopt;
  return wait;
}

}  // namespace attn
