#include "tests/proto/codec/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<size_t> allocated_bytes{0};

}  // namespace

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  allocated_bytes.fetch_add(size, std::memory_order_relaxed);
  return std::malloc(size);
}
void* operator new(size_t size) {
  if (void* block = operator new(size, std::nothrow)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace attn {

size_t AllocatedBytes() {
  return allocated_bytes.load(std::memory_order_relaxed);
}

}  // namespace attn
