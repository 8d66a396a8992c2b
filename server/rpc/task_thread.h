// A thread for work that waits for the disk, so that gRPC's threads need not.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "engine/runtime/mutex.h"

namespace attn {

// Runs tasks one at a time, in the order in which they came. Thread-safe.
class TaskThread {
 public:
  TaskThread();
  // Runs what is still there to its end.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Never blocks for long.
  void Run(std::function<void()> task);

 private:
  void Loop();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ATTN_GUARDED_BY(mutex_);
  bool stopping_ ATTN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace attn
