#include "server/inference/datatype.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "server/inference/quoted.h"

namespace attn {
namespace {

struct DatatypeRow {
  const char* name;
  DType dtype;
};

constexpr DatatypeRow kDatatypes[] = {
    {"FP32", DType::kF32},  {"FP16", DType::kF16},  {"BF16", DType::kBF16},
    {"FP64", DType::kF64},  {"BOOL", DType::kBool}, {"INT8", DType::kI8},
    {"INT32", DType::kI32}, {"INT64", DType::kI64},
};

}  // namespace

absl::StatusOr<DType> ParseDatatype(absl::string_view datatype,
                                    absl::string_view field) {
  std::string expected;
  for (const DatatypeRow& row : kDatatypes) {
    if (datatype == row.name) return row.dtype;
    absl::StrAppend(&expected, expected.empty() ? "one of " : ", ", row.name);
  }
  return FieldError(field, Quoted(datatype), expected);
}

absl::string_view DatatypeOf(DType dtype) {
  for (const DatatypeRow& row : kDatatypes) {
    if (row.dtype == dtype) return row.name;
  }
  return "";
}

}  // namespace attn
