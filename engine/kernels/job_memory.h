// Several arrays of numbers for one job, out of the worker's arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/types/span.h"
#include "engine/runtime/arena.h"

namespace attn {

// One array: where its address goes, and its elements.
template <typename T>
struct JobArrayOf {
  T** data = nullptr;
  int64_t count = 0;
};
using JobArray = JobArrayOf<double>;
using FloatJobArray = JobArrayOf<float>;

// Arena bytes of all.
template <typename T>
size_t JobBytesOf(absl::Span<const JobArrayOf<T>> arrays) {
  size_t bytes = 0;
  for (const JobArrayOf<T>& array : arrays) {
    bytes += Arena::Padded(static_cast<size_t>(array.count) * sizeof(T));
  }
  return bytes;
}
inline size_t JobBytes(absl::Span<const JobArray> arrays) {
  return JobBytesOf(arrays);
}
inline size_t JobBytes(absl::Span<const FloatJobArray> arrays) {
  return JobBytesOf(arrays);
}

template <typename T>
void TakeMemoryOf(absl::Span<const JobArrayOf<T>> arrays, Arena& arena) {
  for (const JobArrayOf<T>& array : arrays) {
    *array.data = arena.Allocate<T>(static_cast<size_t>(array.count));
  }
}
inline void TakeJobMemory(absl::Span<const JobArray> arrays, Arena& arena) {
  TakeMemoryOf(arrays, arena);
}
inline void TakeJobMemory(absl::Span<const FloatJobArray> arrays,
                          Arena& arena) {
  TakeMemoryOf(arrays, arena);
}

// The same for a struct of pointers of any types: `for_each(visit)` calls
// visit(pointer, elements) for each of its parts. Bytes of all; and their
// memory.
template <typename ForEach>
size_t PartBytes(ForEach for_each) {
  size_t bytes = 0;
  for_each([&bytes](auto* part, int64_t elements) {
    bytes += Arena::Padded(static_cast<size_t>(elements) * sizeof(*part));
  });
  return bytes;
}
template <typename ForEach>
void TakeParts(ForEach for_each, Arena& arena) {
  for_each([&arena](auto*& part, int64_t elements) {
    using Element = std::remove_reference_t<decltype(*part)>;
    part = arena.Allocate<Element>(static_cast<size_t>(elements));
  });
}

}  // namespace attn
