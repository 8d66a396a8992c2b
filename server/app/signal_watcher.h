// SIGTERM and SIGINT as events of a thread, not as interruptions of all.
#pragma once

#include <functional>
#include <thread>

#include "engine/runtime/mutex.h"

namespace attn {

// Create it before any other thread: they inherit the blocked signals.
// Thread-safe.
class SignalWatcher {
 public:
  SignalWatcher();
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  // Blocks until the first signal; returns at once if it came already.
  void WaitForFirst();
  bool HasFirst();
  // `hurry` is called for each signal after the first, on the watcher's
  // thread; once at once if a second one came already.
  void OnSecond(std::function<void()> hurry);

 private:
  void Watch();
  void Note();

  const int signals_;  // signalfd
  const int quit_;     // eventfd
  Mutex mutex_;
  CondVar changed_;
  int count_ ATTN_GUARDED_BY(mutex_) = 0;
  std::function<void()> hurry_ ATTN_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace attn
