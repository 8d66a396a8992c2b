// Owned bytes, aligned for vector loads, and in huge pages where they are many.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace attn {

inline constexpr size_t kBufferAlignment = 64;

// Uninitialised on creation. Move-only; thread-compatible.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // size 0 gives a buffer whose data() is not null.
  explicit AlignedBuffer(size_t size);
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : block_(std::move(other.block_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    block_ = std::move(other.block_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  std::byte* data() { return block_.get(); }
  const std::byte* data() const { return block_.get(); }
  size_t size() const { return size_; }

  // Gives the memory away; Free() returns it.
  std::byte* Release() {
    size_ = 0;
    return block_.release();
  }
  static void Free(void* block);

 private:
  struct Deleter {
    void operator()(std::byte* block) const { Free(block); }
  };
  std::unique_ptr<std::byte, Deleter> block_;
  size_t size_ = 0;
};

}  // namespace attn
