// A value made from files, made anew when they change.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/runtime/mutex.h"

namespace attn {

// `T` is a value with ==. Files that cannot be used leave the last good value
// where it is. Thread-safe.
template <typename T>
class Reloadable {
 public:
  using Read = std::function<absl::StatusOr<T>()>;

  // What `read` refuses is the error.
  static absl::StatusOr<std::unique_ptr<Reloadable>> Open(Read read) {
    absl::StatusOr<T> first = read();
    if (!first.ok()) return first.status();
    return std::unique_ptr<Reloadable>(
        new Reloadable(std::move(read), *std::move(first)));
  }

  // Reads the files again. True: they had changed, and Current() is new.
  absl::StatusOr<bool> Reload() {
    absl::StatusOr<T> value = read_();
    if (!value.ok()) return value.status();
    MutexLock lock(mutex_);
    if (*value == *current_) return false;
    current_ = std::make_shared<const T>(*std::move(value));
    version_.fetch_add(1, std::memory_order_release);
    return true;
  }

  std::shared_ptr<const T> Current() const {
    MutexLock lock(mutex_);
    return current_;
  }
  // Counts from 1; Current() is of this version or a later one.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  Reloadable(Read read, T first)
      : read_(std::move(read)),
        current_(std::make_shared<const T>(std::move(first))) {}

  const Read read_;
  mutable Mutex mutex_;
  std::shared_ptr<const T> current_ ATTN_GUARDED_BY(mutex_);
  std::atomic<uint64_t> version_{1};
};

}  // namespace attn
