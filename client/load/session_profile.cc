#include "client/load/session_profile.h"

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {

absl::StatusOr<DType> ParseKvDType(const std::string& text,
                                   absl::string_view field) {
  if (text == "f32") return DType::kF32;
  if (text == "f16") return DType::kF16;
  if (text == "bf16") return DType::kBF16;
  if (text == "int8") return DType::kI8;
  return FieldError(field, absl::StrCat("\"", text, "\""),
                    "f32, bf16, f16 or int8");
}

absl::Status CheckSessionProfile(const SessionProfile& sessions,
                                 const AttentionShape& shape, DType dtype,
                                 absl::string_view prefix) {
  if (shape.batch != 1) {
    return FieldError(absl::StrCat(prefix, "shape"),
                      absl::StrCat("a batch of ", shape.batch),
                      "1: a session is one sequence");
  }
  if (dtype == DType::kF64) {
    return FieldError(absl::StrCat(prefix, "dtype"), "f64",
                      "f32, f16 or bf16 for steps of sessions");
  }
  if (sessions.shared > shape.kv_length) {
    return FieldError(absl::StrCat(prefix, "shared"),
                      absl::StrCat(sessions.shared),
                      absl::StrCat("at most the ", shape.kv_length,
                                   " first tokens, Sk of the shape"));
  }
  return absl::OkStatus();
}

}  // namespace attn
