// What a sequence stores, read by the formulas of its layout and of its types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cache/kv_layout.h"
#include "engine/cache/kv_sequence.h"
#include "engine/core/dtype.h"

namespace attn {

// Bytes rounded up to 64.
int64_t Padded64(int64_t bytes);

// Elements as numbers. F32, F16, BF16 or I8.
std::vector<double> NumbersOf(const std::byte* elements, DType dtype,
                              int64_t count);

// A row of keys or values, scaled if it is I8.
std::vector<double> StoredKey(const KvSequence& sequence, int64_t head,
                              int64_t token);
std::vector<double> StoredValue(const KvSequence& sequence, int64_t head,
                                int64_t token);

// The bytes of all its rows and scales: keys, then values, by head and token.
std::vector<std::byte> StoredBytes(const KvSequence& sequence);

}  // namespace attn
