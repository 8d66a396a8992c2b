#include "engine/core/shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/field_error.h"

namespace attn {

absl::StatusOr<Shape> Shape::Create(absl::Span<const int64_t> dims,
                                    size_t element_bytes,
                                    absl::string_view field) {
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    return FieldError(field, absl::StrCat("rank ", dims.size()),
                      absl::StrCat("rank <= ", kMaxRank));
  }
  const std::string got = absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
  for (const int64_t extent : dims) {
    if (extent < 0) return FieldError(field, got, "extents >= 0");
  }
  // An extent of 0 counts as 1: strides and products of some of the extents
  // must not overflow either.
  auto bytes = static_cast<int64_t>(element_bytes);
  for (const int64_t extent : dims) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes)) {
      return FieldError(field, got, "a byte size below 2^63");
    }
  }
  Shape shape;
  shape.dims_.assign(dims.begin(), dims.end());
  return shape;
}

int64_t Shape::element_count() const {
  int64_t count = 1;
  for (const int64_t extent : dims_) count *= extent;
  return count;
}

std::string Shape::ToString() const {
  return absl::StrCat("[", absl::StrJoin(dims_, ", "), "]");
}

}  // namespace attn
