// Memory in huge pages, where the kernel grants them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace attn {

// Zeroed and so present; aligned to a huge page. Huge pages are worth a quarter
// when hundreds of megabytes are read. Move-only; thread-compatible.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(size_t size);

  std::byte* data() { return block_.get(); }
  const std::byte* data() const { return block_.get(); }

 private:
  struct Deleter {
    void operator()(std::byte* block) const { std::free(block); }
  };
  std::unique_ptr<std::byte, Deleter> block_;
};

}  // namespace attn
