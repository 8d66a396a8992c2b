// Counts what a test program has from operator new.
#pragma once

#include <cstdint>

namespace attn {

// Bytes that were not given back yet, as malloc rounds them; memory of wider
// alignment not among them. Thread-safe.
int64_t LiveHeapBytes();

}  // namespace attn
