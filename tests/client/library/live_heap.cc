#include "tests/client/library/live_heap.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> live_bytes{0};

void Free(void* block) {
  live_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(block)),
                       std::memory_order_relaxed);
  std::free(block);
}

}  // namespace

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  void* block = std::malloc(size);
  live_bytes.fetch_add(static_cast<int64_t>(malloc_usable_size(block)),
                       std::memory_order_relaxed);
  return block;
}
void* operator new(size_t size) {
  if (void* block = operator new(size, std::nothrow)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { Free(block); }
void operator delete(void* block, size_t) noexcept { Free(block); }

namespace attn {

int64_t LiveHeapBytes() { return live_bytes.load(std::memory_order_relaxed); }

}  // namespace attn
