// What one AttendStream may hold, and for how long.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace attn {

struct AttendStreamOptions {
  // Calls open at once: receiving, waiting, running, or answered and not sent.
  int64_t max_calls = 64;
  // Of calls that name no timeout, on a stream without a deadline.
  absl::Duration default_timeout = absl::Seconds(60);
  // No call has more, whatever it or its stream names.
  absl::Duration max_timeout = absl::Hours(1);
  // A client that does not take a message for so long, or the whole of an
  // answer until so long after its call's deadline, loses the stream.
  absl::Duration send_grace = absl::Seconds(60);
};

}  // namespace attn
