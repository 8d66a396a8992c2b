#include "tests/bench/keep_memory.h"

#include <malloc.h>

namespace attn {

void KeepFreedMemory() {
  constexpr int kMebibyte = 1 << 20;
  // Above the largest message that is sent.
  constexpr int kMmapThreshold = 1024 * kMebibyte;
  constexpr int kTrimThreshold = 512 * kMebibyte;
  constexpr int kTopPad = 64 * kMebibyte;
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
  mallopt(M_TOP_PAD, kTopPad);
}

}  // namespace attn
