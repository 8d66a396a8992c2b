#include "server/rpc/task_thread.h"

#include <utility>

namespace attn {

TaskThread::TaskThread() : thread_([this] { Loop(); }) {}

TaskThread::~TaskThread() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

void TaskThread::Run(std::function<void()> task) {
  const MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.NotifyOne();
}

void TaskThread::Loop() {
  while (true) {
    std::function<void()> task;
    {
      const MutexLock lock(mutex_);
      while (tasks_.empty() && !stopping_) changed_.Wait(mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace attn
