#include "tests/proto/codec/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<size_t> allocated_bytes{0};

}  // namespace

void* operator new(size_t size) {
  allocated_bytes.fetch_add(size, std::memory_order_relaxed);
  if (void* block = std::malloc(size)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace attn {

size_t AllocatedBytes() {
  return allocated_bytes.load(std::memory_order_relaxed);
}

}  // namespace attn
