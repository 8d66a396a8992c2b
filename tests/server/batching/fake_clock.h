// Time that a test sets.
#pragma once

#include <atomic>

#include "absl/time/time.h"
#include "engine/runtime/clock.h"

namespace attn {

// Thread-safe.
class FakeClock : public Clock {
 public:
  absl::Time Now() const override {
    return absl::UnixEpoch() + absl::Milliseconds(milliseconds_.load());
  }
  void AdvanceMilliseconds(int64_t count) { milliseconds_ += count; }

 private:
  std::atomic<int64_t> milliseconds_{0};
};

}  // namespace attn
