#include "client/library/retry_throttle.h"

#include <algorithm>
#include <cmath>

namespace attn {
namespace {

constexpr int64_t kToken = 1000;

// Only none is none: that is no bound, and no way back.
int64_t Thousandths(double tokens) {
  const int64_t rounded = std::llround(tokens * static_cast<double>(kToken));
  return tokens > 0 ? std::max<int64_t>(rounded, 1) : 0;
}

}  // namespace

RetryThrottle::RetryThrottle(const RetryPolicy& policy)
    : most_(Thousandths(policy.max_tokens)),
      gain_(Thousandths(policy.token_ratio)),
      tokens_(most_) {}

void RetryThrottle::Add(int64_t amount) {
  int64_t before = tokens_.load(std::memory_order_relaxed);
  int64_t after = 0;
  do {
    after = std::clamp<int64_t>(before + amount, 0, most_);
    // A server that is well costs a load.
    if (after == before) return;
  } while (
      !tokens_.compare_exchange_weak(before, after, std::memory_order_relaxed));
}

void RetryThrottle::RecordSuccess() { Add(gain_); }

bool RetryThrottle::RecordFailure() {
  Add(-kToken);
  return most_ == 0 || tokens_.load(std::memory_order_relaxed) > most_ / 2;
}

}  // namespace attn
