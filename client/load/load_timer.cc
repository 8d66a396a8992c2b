#include "client/load/load_timer.h"

#include <sys/prctl.h>

#include <chrono>
#include <ctime>

namespace attn {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
// Linux rounds timers up by 50 us unless told otherwise, which would show as
// scheduling slip.
constexpr unsigned long kTimerSlackNanos = 1;

}  // namespace

MonotonicTimer::MonotonicTimer() {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNanos, 0, 0, 0);
}

int64_t MonotonicTimer::Now() const {
  return std::chrono::nanoseconds(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t MonotonicTimer::CpuTime() const {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return used.tv_sec * kNanosPerSecond + used.tv_nsec;
}

void MonotonicTimer::WaitUntil(int64_t time) {
  const std::chrono::steady_clock::time_point until{
      std::chrono::nanoseconds(time)};
  std::unique_lock<std::mutex> lock(mutex_);
  woken_.wait_until(lock, until, [this] { return wake_; });
  wake_ = false;
}

void MonotonicTimer::Wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  wake_ = true;
  woken_.notify_one();
}

}  // namespace attn
