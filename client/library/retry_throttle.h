// Keeps retries from adding to the trouble of a server that is in trouble.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/library/retry_policy.h"

namespace attn {

// The tokens of a RetryPolicy: one bucket for all calls to a server.
// Thread-safe.
class RetryThrottle {
 public:
  explicit RetryThrottle(const RetryPolicy& policy);

  void RecordSuccess();
  // Whether there are tokens enough to try again.
  bool RecordFailure();

 private:
  void Add(int64_t amount);

  // In thousandths, as gRPC counts them.
  const int64_t most_;
  const int64_t gain_;
  std::atomic<int64_t> tokens_;
};

}  // namespace attn
