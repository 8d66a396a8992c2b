#include "engine/core/aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace attn {

AlignedBuffer::AlignedBuffer(size_t size) : size_(size) {
  if (size > PTRDIFF_MAX) throw std::bad_alloc();
  const size_t rounded = std::max<size_t>(size, 1) + kBufferAlignment - 1;
  block_.reset(static_cast<std::byte*>(std::aligned_alloc(
      kBufferAlignment, rounded / kBufferAlignment * kBufferAlignment)));
  if (block_ == nullptr) throw std::bad_alloc();
}

void AlignedBuffer::Free(void* block) { std::free(block); }

}  // namespace attn
