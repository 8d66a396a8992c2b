// Calls back at a time.
#pragma once

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "engine/runtime/clock.h"
#include "engine/runtime/mutex.h"

namespace attn {

// A thread that sleeps until it is due. Thread-safe.
class Alarm {
 public:
  // `ring` is called on the alarm's thread, where it may set the alarm again,
  // and may come early or without need. `clock`, a monotonic one, must outlive
  // this.
  Alarm(const Clock& clock, std::function<void()> ring);
  ~Alarm() { Stop(); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Rings at `due`, or before if it is set for earlier. Never blocks for long.
  void Set(absl::Time due);
  // Waits for a `ring` that runs; there is none afterwards. Not from `ring`.
  void Stop();

 private:
  void Loop();

  const Clock& clock_;
  const std::function<void()> ring_;
  Mutex mutex_;
  CondVar changed_;
  absl::Time due_ ATTN_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool stopping_ ATTN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace attn
