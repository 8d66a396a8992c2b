// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace attn {

// The values are those of the wire's DataType.
enum class DType : uint8_t {
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kF64 = 4,
  kBool = 5,
  kI8 = 6,
  kI32 = 7,
  kI64 = 8,
};

// Bytes of one element.
size_t SizeOf(DType dtype);

// "F32", "BF16", ...
absl::string_view Name(DType dtype);

// Whether q, k, v and the outputs may have this type.
bool IsFloat(DType dtype);

}  // namespace attn
