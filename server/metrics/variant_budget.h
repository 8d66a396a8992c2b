// How many values the label `variant` may take.
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>

namespace attn {

// A server that meets all the variants there are would else make so many series
// that a scrape takes seconds.
inline constexpr size_t kMaxVariants = 200;

// What counts the variants that are over the budget or were not announced.
inline constexpr char kOtherVariant[] = "other";

// The names that have series; they never go. Thread-safe.
class VariantBudget {
 public:
  explicit VariantBudget(size_t capacity) : capacity_(capacity) {}

  // Whether `variant` has a place, taken now if there is one left.
  bool Admit(const std::string& variant) {
    const std::lock_guard lock(mutex_);
    if (names_.contains(variant)) return true;
    if (names_.size() >= capacity_) return false;
    names_.insert(variant);
    return true;
  }

 private:
  const size_t capacity_;
  std::mutex mutex_;
  std::set<std::string> names_;
};

}  // namespace attn
