// Something that is done again and again, beside everything else.
#pragma once

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "engine/runtime/mutex.h"

namespace attn {

// Calls `task` every `interval`, first after one, on a thread of its own. An
// interval of more than a year is cut to one.
// Ended by the destructor, which waits for a call that runs. Thread-compatible.
class PeriodicTask {
 public:
  PeriodicTask(absl::Duration interval, std::function<void()> task);
  ~PeriodicTask();
  PeriodicTask(const PeriodicTask&) = delete;
  PeriodicTask& operator=(const PeriodicTask&) = delete;

 private:
  void Run();
  // False: it is time to end.
  bool WaitForNext();

  const absl::Duration interval_;
  const std::function<void()> task_;
  Mutex mutex_;
  CondVar ending_;
  bool ended_ ATTN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace attn
