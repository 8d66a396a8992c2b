#include "server/app/memory_settings.h"

#include <malloc.h>

#include "engine/core/block_pool.h"

namespace attn {

void TuneMalloc() {
  constexpr int kMebibyte = 1 << 20;
  // Above the largest message there could be: never map.
  constexpr int kMmapThreshold = 1024 * kMebibyte;
  // Free memory at the top of the heap that is kept, and how much it grows by.
  constexpr int kTrimThreshold = 512 * kMebibyte;
  constexpr int kTopPad = 64 * kMebibyte;
  // One heap for all threads. With one for each, as many copies of the largest
  // load are kept as there were threads that read from sockets, and none but
  // the first can be trimmed: 1.4 GB after 8 callers of 64 MiB, for good,
  // instead of 0.7 GB, and 30 MB at rest. Small allocations are cached by
  // thread, and payloads have a pool of their own.
  constexpr int kArenas = 1;
  // Before any other thread. NOLINTBEGIN(concurrency-mt-unsafe)
  mallopt(M_ARENA_MAX, kArenas);
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
  mallopt(M_TOP_PAD, kTopPad);
  // NOLINTEND(concurrency-mt-unsafe)
}

void KeepBuffers(size_t max_bytes) { BufferPool().set_max_bytes(max_bytes); }

void TrimMemory() {
  BufferPool().Trim();
  malloc_trim(0);
}

}  // namespace attn
