// What can go wrong with standard output: it may be closed, or its disk full.
#pragma once

#include "absl/status/status.h"

namespace attn {

// Call first: a standard stream that the caller closed gets a file behind it
// that cannot be read or written, or the next connection would take its number
// and be written to.
void OccupyStandardStreams();

// Call last: whether all that was printed has arrived.
absl::Status FlushStandardOutput();

}  // namespace attn
