#include "server/security/periodic_task.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace attn {
namespace {

// A steady clock cannot count to infinity.
constexpr absl::Duration kLongestInterval = absl::Hours(24 * 365);

}  // namespace

PeriodicTask::PeriodicTask(absl::Duration interval, std::function<void()> task)
    : interval_(std::min(interval, kLongestInterval)), task_(std::move(task)) {
  thread_ = std::thread([this] { Run(); });
}

PeriodicTask::~PeriodicTask() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
    ending_.NotifyAll();
  }
  thread_.join();
}

void PeriodicTask::Run() {
  while (WaitForNext()) task_();
}

bool PeriodicTask::WaitForNext() {
  const auto end =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(interval_);
  MutexLock lock(mutex_);
  while (!ended_) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return true;
    ending_.WaitFor(mutex_, left);
  }
  return false;
}

}  // namespace attn
