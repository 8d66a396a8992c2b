// What this machine can do at most, beside fma_peak.h: exponentials and reads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attn {

// Elements of one call of SpinExp().
int64_t ExpCount();

// The engine's own exp on numbers that stay in the nearest cache, on the
// widest vectors there are. Returns a value that depends on all of them.
float SpinExp();

// Reads `count` floats once, in order; `from` is aligned to 64 bytes.
float ReadAll(const float* from, size_t count);

}  // namespace attn
