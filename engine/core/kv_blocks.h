// Keys and values of a sequence that do not lie in one piece.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attn {

// K and V of one sequence in blocks of equally many tokens, the last perhaps
// not full. In each block lie k [Hkv, tokens, d_k] and v [Hkv, tokens, d_v],
// row-major and of the type that the call's k and v say; if those are I8, F32
// scales [Hkv, tokens] of each too. Borrowed; a value.
struct KvBlocks {
  // A multiple of kStreamRows.
  int64_t block_tokens = 0;
  // One for each begun block_tokens keys. A block that no row can see may be
  // any block.
  const std::byte* const* blocks = nullptr;
  // Bytes from the beginning of a block; k lies at 0.
  int64_t v_offset = 0;
  int64_t k_scale_offset = 0;
  int64_t v_scale_offset = 0;

  bool present() const { return block_tokens > 0; }
};

}  // namespace attn
