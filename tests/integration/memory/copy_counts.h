// How much a process copied by memcpy(), memmove() and their like, in copies of
// 4 KiB and more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace attn {

inline constexpr size_t kCountedCopyBytes = 4096;
// Names a file of sizeof(CopyCounts) zeros where copy_counter.cc counts.
inline constexpr char kCopyCountsVariable[] = "ATTN_COPY_COUNTS";

// Lies in a file that two processes map. Thread-safe.
struct CopyCounts {
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> calls{0};
};

// Those of this process, if copy_counter.cc is linked into it.
extern "C" CopyCounts* AttnCopyCounts();

}  // namespace attn
