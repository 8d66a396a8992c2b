// Scratch memory of one worker: granted when a job starts, never grown while
// it runs.
#pragma once

#include <cstddef>
#include <memory>

namespace attn {

// Every allocation is aligned to this many bytes.
inline constexpr size_t kArenaAlignment = 64;

// Bump allocator over one aligned block. Reserve() between jobs; Allocate()
// within one; Reset() frees all at once. Not thread-safe: one worker owns it.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Makes room for `bytes` and resets. Keeps a block that is large enough.
  void Reserve(size_t bytes);
  // Takes `count` uninitialised elements; never null, not even for 0. Dies if
  // the reservation is exceeded: a plan that booked too little is a broken
  // invariant.
  template <typename T>
  T* Allocate(size_t count) {
    return static_cast<T*>(AllocateBytes(count * sizeof(T)));
  }
  void Reset() { used_ = 0; }
  // Gives the block back if it is larger than `bytes`, and resets.
  void Trim(size_t bytes);
  size_t capacity() const { return capacity_; }

  // What Allocate() takes of the reservation for so many bytes.
  static constexpr size_t Padded(size_t bytes) {
    return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  }

 private:
  struct Free {
    void operator()(std::byte* block) const;
  };

  void* AllocateBytes(size_t bytes);

  std::unique_ptr<std::byte, Free> block_;
  size_t capacity_ = 0;
  size_t used_ = 0;
};

}  // namespace attn
