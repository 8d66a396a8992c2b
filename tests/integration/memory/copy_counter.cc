// A library that stands in front of libc's copying functions and counts what
// goes through them: linked into a program, or preloaded into one. What a
// compiler copies inline it does not see; those are copies of small, constant
// size.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "tests/integration/memory/copy_counts.h"

namespace attn {
namespace {

using Word = uint64_t __attribute__((may_alias, aligned(1)));

CopyCounts own_counts;
std::atomic<CopyCounts*> counts = &own_counts;

// A loop that the compiler must not turn into the call that this stands for:
// see its options in CMakeLists.txt.
void CopyForward(char* to, const char* from, size_t size) {
  size_t at = 0;
  for (; at + sizeof(Word) <= size; at += sizeof(Word)) {
    *reinterpret_cast<Word*>(to + at) =
        *reinterpret_cast<const Word*>(from + at);
  }
  for (; at < size; ++at) to[at] = from[at];
}

void CopyBackward(char* to, const char* from, size_t size) {
  size_t at = size;
  for (; at >= sizeof(Word); at -= sizeof(Word)) {
    const size_t word = at - sizeof(Word);
    *reinterpret_cast<Word*>(to + word) =
        *reinterpret_cast<const Word*>(from + word);
  }
  for (; at > 0; --at) to[at - 1] = from[at - 1];
}

void* Copy(void* to, const void* from, size_t size) {
  if (size >= kCountedCopyBytes) {
    CopyCounts& c = *counts.load(std::memory_order_relaxed);
    c.bytes.fetch_add(size, std::memory_order_relaxed);
    c.calls.fetch_add(1, std::memory_order_relaxed);
  }
  auto* const target = static_cast<char*>(to);
  const auto* const source = static_cast<const char*>(from);
  const auto distance =
      reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  if (distance >= size) {
    CopyForward(target, source, size);
  } else {
    CopyBackward(target, source, size);
  }
  return to;
}

// Runs before main(), alone.
__attribute__((constructor)) void MapCounts() {
  const char* const path = std::getenv(kCopyCountsVariable);  // NOLINT
  if (path == nullptr) return;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) std::abort();
  void* const mapped = mmap(nullptr, sizeof(CopyCounts), PROT_READ | PROT_WRITE,
                            MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) std::abort();
  counts.store(static_cast<CopyCounts*>(mapped));
}

}  // namespace

extern "C" CopyCounts* AttnCopyCounts() { return counts.load(); }

}  // namespace attn

extern "C" {

void* memcpy(void* to, const void* from, size_t size) {
  return attn::Copy(to, from, size);
}
void* memmove(void* to, const void* from, size_t size) {
  return attn::Copy(to, from, size);
}
void* mempcpy(void* to, const void* from, size_t size) {
  return static_cast<char*>(attn::Copy(to, from, size)) + size;
}
void* __mempcpy(void* to, const void* from, size_t size) {
  return static_cast<char*>(attn::Copy(to, from, size)) + size;
}

void* __memcpy_chk(void* to, const void* from, size_t size, size_t room) {
  if (size > room) std::abort();
  return attn::Copy(to, from, size);
}
void* __memmove_chk(void* to, const void* from, size_t size, size_t room) {
  if (size > room) std::abort();
  return attn::Copy(to, from, size);
}
void* __mempcpy_chk(void* to, const void* from, size_t size, size_t room) {
  if (size > room) std::abort();
  return static_cast<char*>(attn::Copy(to, from, size)) + size;
}

}  // extern "C"
