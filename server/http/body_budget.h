// How many bytes of bodies are held at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace attn {

// Thread-safe.
class BodyBudget {
 public:
  // A part of the budget, given back by the destructor. Move-only.
  class Share {
   public:
    Share() = default;
    Share(BodyBudget& budget, int64_t bytes)
        : budget_(&budget), bytes_(bytes) {}
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          bytes_(other.bytes_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (budget_ != nullptr) budget_->taken_ -= bytes_;
    }

   private:
    BodyBudget* budget_ = nullptr;
    int64_t bytes_ = 0;
  };

  explicit BodyBudget(int64_t bytes) : bytes_(bytes) {}

  // False: there is no room.
  bool Take(int64_t bytes, Share& share) {
    int64_t taken = taken_;
    do {
      if (bytes > bytes_ - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes));
    share = Share(*this, bytes);
    return true;
  }
  int64_t taken() const { return taken_; }

 private:
  const int64_t bytes_;
  std::atomic<int64_t> taken_{0};
};

}  // namespace attn
