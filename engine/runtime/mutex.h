// Locks that clang's thread-safety analysis proves. Over std::mutex, because
// the thread sanitizer cannot see into Debian's absl::Mutex.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define ATTN_TS(x) __attribute__((x))
#else
#define ATTN_TS(x)
#endif

#define ATTN_GUARDED_BY(x) ATTN_TS(guarded_by(x))
#define ATTN_REQUIRES(...) ATTN_TS(requires_capability(__VA_ARGS__))
#define ATTN_EXCLUDES(...) ATTN_TS(locks_excluded(__VA_ARGS__))

namespace attn {

// Thread-safe.
class ATTN_TS(capability("mutex")) Mutex {
 public:
  void Lock() ATTN_TS(acquire_capability()) { mutex_.lock(); }
  void Unlock() ATTN_TS(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ATTN_TS(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ATTN_TS(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ATTN_TS(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Thread-safe.
class CondVar {
 public:
  // Waits for a notification; may wake without one.
  void Wait(Mutex& mutex) ATTN_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // As Wait(), for at most `timeout`. False: it timed out.
  bool WaitFor(Mutex& mutex, std::chrono::nanoseconds timeout)
      ATTN_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool woken =
        condition_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace attn
