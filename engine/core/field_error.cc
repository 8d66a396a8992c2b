#include "engine/core/field_error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace attn {
namespace {

constexpr char kFieldPayload[] = "attn/field";

}  // namespace

absl::Status FieldError(absl::string_view field, absl::string_view got,
                        absl::string_view expected) {
  absl::Status status = absl::InvalidArgumentError(
      absl::StrCat(field, ": got ", got, ", expected ", expected));
  status.SetPayload(kFieldPayload, absl::Cord(field));
  return status;
}

std::optional<std::string> FieldOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldPayload);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

}  // namespace attn
