// The attempts of one call.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/library/retry_policy.h"
#include "client/library/retry_throttle.h"

namespace attn {

// Thread-compatible.
class CallRetries {
 public:
  // `policy` and `throttle` must outlive it. `end` is the call's deadline.
  CallRetries(const RetryPolicy& policy, Repeat repeat, absl::Time end,
              RetryThrottle& throttle)
      : policy_(policy), repeat_(repeat), end_(end), throttle_(throttle) {}

  // An attempt ended with `status` at `now`: how long to wait before the next.
  // Absent: there is none, and `status` is the call's.
  std::optional<absl::Duration> WaitAfter(const absl::Status& status,
                                          absl::Time now);

 private:
  absl::Duration Backoff() const;

  const RetryPolicy& policy_;
  const Repeat repeat_;
  const absl::Time end_;
  RetryThrottle& throttle_;
  int attempts_ = 0;
};

}  // namespace attn
