// A value that is made when it is first wanted.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

namespace attn {

// Thread-safe; only those who come before it is there wait, for one another.
template <typename Value>
class OnceMade {
 public:
  // Null before it is made.
  Value* get() const { return made_.load(std::memory_order_acquire); }

  // `make()` gives a unique_ptr.
  template <typename Make>
  Value& GetOrMake(Make make) {
    if (Value* made = get()) return *made;
    const std::lock_guard lock(making_);
    if (owned_ == nullptr) {
      owned_ = make();
      made_.store(owned_.get(), std::memory_order_release);
    }
    return *owned_;
  }

 private:
  std::atomic<Value*> made_{nullptr};
  std::unique_ptr<Value> owned_;
  std::mutex making_;
};

}  // namespace attn
