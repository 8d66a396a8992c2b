// A gate for an orderly stop: refuse newcomers, wait for those inside.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "engine/runtime/mutex.h"

namespace attn {

// Open from the start; closed for good by Close(). Must outlive its passes.
// Thread-safe.
class Gate {
 public:
  // A place inside, or none: leaves when destroyed. Move-only;
  // thread-compatible.
  class Pass {
   public:
    Pass() = default;
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave();
    }
    bool admitted() const { return gate_ != nullptr; }

   private:
    friend class Gate;
    explicit Pass(Gate* gate) : gate_(gate) {}
    Gate* gate_ = nullptr;
  };

  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Not admitted once the gate is closed. Never waits for those inside.
  Pass Enter();
  // Refuses newcomers from now on; those inside stay. May be called again.
  void Close();
  // Waits until nobody is inside. False: `timeout`, which may be infinite, has
  // passed. Only after Close() does true mean that nobody will come.
  bool WaitUntilEmpty(absl::Duration timeout);

  bool closed() const;
  int64_t inside() const;

 private:
  void Leave();

  mutable Mutex mutex_;
  CondVar empty_;
  bool closed_ ATTN_GUARDED_BY(mutex_) = false;
  int64_t inside_ ATTN_GUARDED_BY(mutex_) = 0;
};

}  // namespace attn
