#include "engine/runtime/gate.h"

#include <algorithm>
#include <chrono>

namespace attn {
namespace {

// As good as for ever, and the sum with the present fits the clock's range.
constexpr absl::Duration kLongest = absl::Hours(24 * 365);

}  // namespace

Gate::Pass Gate::Enter() {
  MutexLock lock(mutex_);
  if (closed_) return Pass();
  ++inside_;
  return Pass(this);
}

void Gate::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

bool Gate::WaitUntilEmpty(absl::Duration timeout) {
  const absl::Duration wait =
      std::clamp(timeout, absl::ZeroDuration(), kLongest);
  const auto end =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(wait);
  MutexLock lock(mutex_);
  while (inside_ > 0) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return false;
    empty_.WaitFor(mutex_, left);
  }
  return true;
}

bool Gate::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

int64_t Gate::inside() const {
  MutexLock lock(mutex_);
  return inside_;
}

void Gate::Leave() {
  // Notified under the lock: as soon as it is free, who waited may destroy the
  // gate.
  MutexLock lock(mutex_);
  if (--inside_ == 0) empty_.NotifyAll();
}

}  // namespace attn
