// The extents of a tensor, outermost first.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace attn {

// Deepest tensor that any stage takes.
inline constexpr int kMaxRank = 6;

// Every extent is >= 0 and the product of any of them fits an int64_t:
// Create() checks what comes from outside. A value; thread-compatible.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}

  // INVALID_ARGUMENT that names `field` if an extent is negative, the rank
  // exceeds kMaxRank, or product(dims) * element_bytes overflows (an extent of
  // 0 counts as 1 here).
  static absl::StatusOr<Shape> Create(absl::Span<const int64_t> dims,
                                      size_t element_bytes,
                                      absl::string_view field);

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int axis) const {
    return dims_[static_cast<size_t>(axis)];
  }
  absl::Span<const int64_t> dims() const { return dims_; }
  // 1 for rank 0.
  int64_t element_count() const;
  // "[2, 8, 512, 64]"
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.dims_ == b.dims_;
  }
  template <typename H>
  friend H AbslHashValue(H h, const Shape& s) {
    return H::combine(std::move(h), s.dims_);
  }

 private:
  absl::InlinedVector<int64_t, kMaxRank> dims_;
};

}  // namespace attn
