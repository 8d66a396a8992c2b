#include "engine/runtime/arena.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace attn {

void Arena::Free::operator()(std::byte* block) const { std::free(block); }

void Arena::Reserve(size_t bytes) {
  used_ = 0;
  if (bytes <= capacity_) return;
  if (bytes > PTRDIFF_MAX) throw std::bad_alloc();
  // The old block goes first, so that both are never held at once.
  Trim(0);
  block_.reset(static_cast<std::byte*>(
      std::aligned_alloc(kArenaAlignment, Padded(bytes))));
  if (block_ == nullptr) throw std::bad_alloc();
  capacity_ = Padded(bytes);
}

void Arena::Trim(size_t bytes) {
  used_ = 0;
  if (capacity_ <= bytes) return;
  block_.reset();
  capacity_ = 0;
}

void* Arena::AllocateBytes(size_t bytes) {
  if (bytes > capacity_ - used_) {
    std::fprintf(stderr,
                 "attn: a job took %zu bytes of scratch after %zu, but %zu are "
                 "reserved\n",
                 bytes, used_, capacity_);
    std::abort();
  }
  // No bytes have an address too: what is null must not be given to memset and
  // its like.
  alignas(kArenaAlignment) static std::byte nothing[kArenaAlignment];
  if (block_ == nullptr) return nothing;
  std::byte* const start = block_.get() + used_;
  used_ += Padded(bytes);
  return start;
}

}  // namespace attn
