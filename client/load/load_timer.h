// Time and waiting for a load run, so that tests can simulate both.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace attn {

// Thread-safe; one thread at a time may wait.
class LoadTimer {
 public:
  virtual ~LoadTimer() = default;

  // Monotonic nanoseconds.
  virtual int64_t Now() const = 0;
  // CPU nanoseconds that the process has used so far.
  virtual int64_t CpuTime() const = 0;
  // Returns at `time`, or earlier if Wake() was called since the last wait
  // ended.
  virtual void WaitUntil(int64_t time) = 0;
  virtual void Wake() = 0;
};

// The machine's clock. Made on the thread that waits: its timers are set to
// the finest slack. Thread-safe as above.
class MonotonicTimer : public LoadTimer {
 public:
  MonotonicTimer();

  int64_t Now() const override;
  int64_t CpuTime() const override;
  void WaitUntil(int64_t time) override;
  void Wake() override;

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool wake_ = false;
};

}  // namespace attn
