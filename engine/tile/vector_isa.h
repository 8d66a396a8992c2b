// Which vectors this process computes with.
#pragma once

#include <cstdint>

#include "engine/core/isa_cap.h"

namespace attn {

enum class VectorIsa : uint8_t {
  kPortable = 1,
  kSse4 = 2,
  kAvx2 = 3,
  kAvx512 = 4,
  kNeon = 5,
  kSve = 6,
};

// The widest that the machine has and the cap leaves. Thread-safe.
VectorIsa WidestVectors();

// Leaves no wider vectors than the cap's to everything that Highway dispatches.
// Not thread-safe: before anything is computed. What has been taken away does
// not come back.
void CapVectors(IsaCap cap);

}  // namespace attn
