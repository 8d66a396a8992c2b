// Time as an argument, so that tests can advance it.
#pragma once

#include "absl/time/time.h"

namespace attn {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic; only differences mean anything.
  virtual absl::Time Now() const = 0;

  // The machine's monotonic clock. Never destroyed.
  static const Clock& Monotonic();
};

}  // namespace attn
