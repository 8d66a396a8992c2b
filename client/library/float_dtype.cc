#include "client/library/float_dtype.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {

absl::StatusOr<DType> ParseFloatDType(const std::string& name,
                                      absl::string_view field) {
  constexpr DType kFloats[] = {DType::kF32, DType::kF16, DType::kBF16,
                               DType::kF64};
  for (const DType dtype : kFloats) {
    if (absl::AsciiStrToUpper(name) == Name(dtype)) return dtype;
  }
  return FieldError(field, absl::StrCat("\"", name, "\""),
                    "f32, f16, bf16 or f64");
}

}  // namespace attn
