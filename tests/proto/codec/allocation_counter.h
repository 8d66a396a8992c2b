// Counts what a test program asks of operator new.
#pragma once

#include <cstddef>

namespace attn {

// Bytes asked for since the program began. Thread-safe.
size_t AllocatedBytes();

}  // namespace attn
