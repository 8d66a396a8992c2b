// What a call ends with whose memory the system does not give.
#pragma once

#include "absl/status/status.h"

namespace attn {

// RESOURCE_EXHAUSTED. Stands for a std::bad_alloc: what was booked may still be
// more than the system has.
inline absl::Status OutOfMemory() {
  return absl::ResourceExhaustedError(
      "the system has no memory left for the call");
}

}  // namespace attn
