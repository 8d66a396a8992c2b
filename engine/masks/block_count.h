// Blocks of a sequence.
#pragma once

#include <cstdint>

namespace attn {

// Blocks of `block` elements, the last of which may be short; the sum that
// rounds up by adding overflows for a block near the largest number.
inline int64_t BlockCount(int64_t elements, int64_t block) {
  return elements / block + (elements % block == 0 ? 0 : 1);
}

}  // namespace attn
