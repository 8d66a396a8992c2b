#include "engine/core/aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "engine/core/block_pool.h"

namespace attn {
namespace {

// From here on memory comes from BufferPool() and goes back to it.
constexpr size_t kMinPooledBytes = size_t{256} << 10;

// The address sanitizer sees the end of a buffer's life only if it is freed.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kPools = false;
#else
constexpr bool kPools = true;
#endif

std::byte* Allocate(size_t size) {
  void* block = nullptr;
  if (posix_memalign(&block, kBufferAlignment, std::max<size_t>(size, 1)) !=
      0) {
    throw std::bad_alloc();
  }
  return static_cast<std::byte*>(block);
}

}  // namespace

AlignedBuffer::AlignedBuffer(size_t size) : size_(size) {
  if (size > PTRDIFF_MAX) throw std::bad_alloc();
  block_.reset(kPools && size >= kMinPooledBytes ? BufferPool().Take(size)
                                                 : Allocate(size));
}

void AlignedBuffer::Free(void* block) {
  if (kPools && BufferPool().Give(block)) return;
  std::free(block);
}

}  // namespace attn
