#include "server/batching/alarm.h"

#include <algorithm>
#include <utility>

namespace attn {
namespace {

// A condition variable's clock cannot count to infinity.
constexpr absl::Duration kLongestSleep = absl::Hours(1);

}  // namespace

Alarm::Alarm(const Clock& clock, std::function<void()> ring)
    : clock_(clock), ring_(std::move(ring)), thread_([this] { Loop(); }) {}

void Alarm::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
}

void Alarm::Set(absl::Time due) {
  const MutexLock lock(mutex_);
  if (due >= due_) return;
  due_ = due;
  changed_.NotifyOne();
}

void Alarm::Loop() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      while (!stopping_) {
        const absl::Duration left = due_ - clock_.Now();
        if (left <= absl::ZeroDuration()) break;
        changed_.WaitFor(
            mutex_, absl::ToChronoNanoseconds(std::min(left, kLongestSleep)));
      }
      if (stopping_) return;
      due_ = absl::InfiniteFuture();
    }
    ring_();
  }
}

}  // namespace attn
