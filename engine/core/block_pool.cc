#include "engine/core/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>

namespace attn {
namespace {

constexpr size_t kPage = size_t{4} << 10;
constexpr size_t kHugePage = size_t{2} << 20;
// From here on a block lies in huge pages. Reading 256 MiB of f32 in order:
// 32 GB/s with them, 21 without (Zen 4).
constexpr size_t kMinHugeBytes = 2 * kHugePage;
constexpr size_t kSizesPerOctave = 8;

size_t RoundUp(size_t bytes, size_t step) {
  return (bytes + step - 1) / step * step;
}

size_t CapacityFor(size_t size) {
  return RoundUp(size, std::max(std::bit_floor(size) / kSizesPerOctave, kPage));
}

constexpr size_t kKeptBytes = size_t{256} << 20;

std::byte* MapBytes(size_t bytes) {
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(block);
}

// At the start of a huge page: maps more, and gives the ends back.
std::byte* MapHuge(size_t bytes) {
  std::byte* const block = MapBytes(bytes + kHugePage);
  const size_t offset = reinterpret_cast<uintptr_t>(block) % kHugePage;
  const size_t before = offset == 0 ? 0 : kHugePage - offset;
  if (before > 0) munmap(block, before);
  munmap(block + before + bytes, kHugePage - before);
  // Whole pages, so that no more memory is taken. A refusal costs only speed.
  static_cast<void>(
      madvise(block + before, bytes / kHugePage * kHugePage, MADV_HUGEPAGE));
  return block + before;
}

}  // namespace

BlockPool::~BlockPool() { Trim(); }

std::byte* BlockPool::Take(size_t size) {
  if (size > PTRDIFF_MAX / 2) throw std::bad_alloc();
  const size_t capacity = CapacityFor(std::max<size_t>(size, 1));
  Blocks surplus;
  std::byte* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    block = TakeIdle(capacity);
    in_use_bytes_ += capacity;
    if (block == nullptr) Shrink(max_bytes_, surplus);
  }
  Unmap(surplus);
  const bool is_new = block == nullptr;
  if (is_new) {
    try {
      block =
          capacity >= kMinHugeBytes ? MapHuge(capacity) : MapBytes(capacity);
    } catch (const std::bad_alloc&) {
      const std::lock_guard lock(mutex_);
      in_use_bytes_ -= capacity;
      throw;
    }
  }
  const std::lock_guard lock(mutex_);
  in_use_.emplace(block, capacity);
  return block;
}

bool BlockPool::Give(void* block) {
  if (reinterpret_cast<uintptr_t>(block) % kPage != 0) return false;
  Blocks surplus;
  {
    const std::lock_guard lock(mutex_);
    const auto found = in_use_.find(block);
    if (found == in_use_.end()) return false;
    const size_t capacity = found->second;
    in_use_.erase(found);
    in_use_bytes_ -= capacity;
    idle_bytes_ += capacity;
    idle_[capacity].push_back(
        {static_cast<std::byte*>(block), capacity, clock_++});
    Shrink(max_bytes_, surplus);
  }
  Unmap(surplus);
  return true;
}

void BlockPool::Trim() {
  Blocks surplus;
  {
    const std::lock_guard lock(mutex_);
    Shrink(0, surplus);
  }
  Unmap(surplus);
}

void BlockPool::set_max_bytes(size_t max_bytes) {
  Blocks surplus;
  {
    const std::lock_guard lock(mutex_);
    max_bytes_ = max_bytes;
    Shrink(max_bytes, surplus);
  }
  Unmap(surplus);
}

BlockPool::Usage BlockPool::usage() const {
  const std::lock_guard lock(mutex_);
  return {.in_use_bytes = in_use_bytes_, .idle_bytes = idle_bytes_};
}

std::byte* BlockPool::TakeIdle(size_t capacity) {
  const auto found = idle_.find(capacity);
  if (found == idle_.end()) return nullptr;
  // The last to come is the likeliest to be in a cache.
  std::byte* const block = found->second.back().start;
  found->second.pop_back();
  if (found->second.empty()) idle_.erase(found);
  idle_bytes_ -= capacity;
  return block;
}

void BlockPool::Shrink(size_t limit, Blocks& surplus) {
  while (!idle_.empty() && in_use_bytes_ + idle_bytes_ > limit) {
    const auto longest = std::min_element(
        idle_.begin(), idle_.end(), [](const auto& a, const auto& b) {
          return a.second.front().since < b.second.front().since;
        });
    Blocks& blocks = longest->second;
    surplus.push_back(blocks.front());
    idle_bytes_ -= blocks.front().capacity;
    blocks.erase(blocks.begin());
    if (blocks.empty()) idle_.erase(longest);
  }
}

void BlockPool::Unmap(const Blocks& blocks) {
  for (const Block& block : blocks) munmap(block.start, block.capacity);
}

BlockPool& BufferPool() {
  // Never destroyed: a transport may free a buffer when all else is gone.
  static BlockPool& pool = *new BlockPool(kKeptBytes);
  return pool;
}

}  // namespace attn
