// A piece of an encoded message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/aligned_buffer.h"

namespace attn {

// Bytes of its own, a buffer that is given away, or memory that is only
// referred to. Exactly one is set. Thread-compatible.
struct WireChunk {
  std::string bytes;
  AlignedBuffer owned;
  size_t owned_size = 0;
  const std::byte* borrowed = nullptr;
  size_t borrowed_size = 0;
};

// Bytes of all of them.
inline int64_t SizeOfChunks(const std::vector<WireChunk>& chunks) {
  size_t size = 0;
  for (const WireChunk& chunk : chunks) {
    size += chunk.bytes.size() + chunk.owned_size + chunk.borrowed_size;
  }
  return static_cast<int64_t>(size);
}

}  // namespace attn
