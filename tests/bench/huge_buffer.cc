#include "tests/bench/huge_buffer.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace attn {

HugeBuffer::HugeBuffer(size_t size) {
  constexpr size_t kPage = size_t{2} << 20;
  const size_t rounded = (size + kPage) / kPage * kPage;
  block_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, rounded)));
  if (block_ == nullptr) throw std::bad_alloc();
  // A kernel without huge pages refuses: then the pages are small.
  madvise(block_.get(), rounded, MADV_HUGEPAGE);
  std::memset(block_.get(), 0, rounded);
}

}  // namespace attn
