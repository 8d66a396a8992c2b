// The limits that a server was last heard to have.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "proto/codec/schema.h"

namespace attn {

// Thread-safe.
class KnownLimits {
 public:
  std::optional<v1::Limits> Get() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return limits_;
  }
  void Set(v1::Limits limits) {
    const std::lock_guard<std::mutex> lock(mutex_);
    limits_ = std::move(limits);
  }
  void Forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    limits_.reset();
  }

 private:
  mutable std::mutex mutex_;
  std::optional<v1::Limits> limits_;
};

}  // namespace attn
