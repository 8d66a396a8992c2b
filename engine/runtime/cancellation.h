// Why a call should stop early: its client is gone or its deadline passed.
#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/runtime/clock.h"

namespace attn {

// Looked at between tiles. Thread-safe, but for Shorten().
class Cancellation {
 public:
  // `deadline` is on `clock`'s time line; InfiniteFuture(): none.
  Cancellation(const Clock& clock, absl::Time deadline)
      : clock_(clock), deadline_(deadline) {}

  // Brings the deadline forward; a later one changes nothing. Before anybody
  // else looks at it, but beside Cancel().
  void Shorten(absl::Time deadline) {
    if (deadline < deadline_) deadline_ = deadline;
  }

  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  // OK, CANCELLED or DEADLINE_EXCEEDED.
  absl::Status Check() const;
  absl::Time deadline() const { return deadline_; }

 private:
  const Clock& clock_;
  absl::Time deadline_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace attn
