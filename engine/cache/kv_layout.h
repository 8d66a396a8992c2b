// How keys and values of one layer of a session lie in its blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/core/kv_blocks.h"

namespace attn {

// Tokens of a block: a whole number of the kernels' steps, and for one head of
// 128 floats as much as a stream of memory needs to run at full speed.
inline constexpr int64_t kKvBlockTokens = 64;

// Blocks that hold so many tokens, 0 and more.
constexpr int64_t KvBlocksFor(int64_t tokens) {
  return tokens / kKvBlockTokens + (tokens % kKvBlockTokens != 0 ? 1 : 0);
}

// A value.
struct KvLayout {
  int64_t kv_heads = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  // F32, F16, BF16 or I8; I8 has a scale for each row.
  DType dtype = DType::kF32;

  bool quantized() const { return dtype == DType::kI8; }
  // Bytes from the beginning of a block, each a multiple of 64; k lies at 0.
  // Scales lie where v ends if there are none.
  int64_t v_offset() const;
  int64_t k_scale_offset() const;
  int64_t v_scale_offset() const;
  // Of a block; 64 at least, so that a budget bounds the blocks of rows without
  // elements too. Extents that no memory holds give more than any budget has.
  int64_t block_bytes() const;

  friend bool operator==(const KvLayout&, const KvLayout&) = default;
};

}  // namespace attn
