#include "engine/runtime/clock.h"

#include <chrono>

namespace attn {
namespace {

class MonotonicClock final : public Clock {
 public:
  absl::Time Now() const override {
    return absl::UnixEpoch() +
           absl::FromChrono(
               std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

const Clock& Clock::Monotonic() {
  // Never destroyed: threads may outlive main.
  static const Clock& clock = *new MonotonicClock;
  return clock;
}

}  // namespace attn
