#include "server/app/malloc_settings.h"

#include <malloc.h>

namespace attn {

void TuneMalloc() {
  constexpr int kMebibyte = 1 << 20;
  // Above the largest message there could be: never map.
  constexpr int kMmapThreshold = 1024 * kMebibyte;
  // Free memory at the top of the heap that is kept, and how much it grows by.
  constexpr int kTrimThreshold = 512 * kMebibyte;
  constexpr int kTopPad = 64 * kMebibyte;
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
  mallopt(M_TOP_PAD, kTopPad);
}

}  // namespace attn
