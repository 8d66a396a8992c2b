#include "engine/core/field_error.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace attn {
namespace {

constexpr char kFieldPayload[] = "attn/field";

// A status travels in headers, which have room for some kilobytes: what came
// must not crowd out what is said of it.
constexpr size_t kMaxPart = 256;

std::string Shortened(absl::string_view text) {
  if (text.size() <= kMaxPart) return std::string(text);
  size_t end = kMaxPart;
  // Not inside of a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return absl::StrCat(text.substr(0, end), "... (", text.size(), " bytes)");
}

}  // namespace

absl::Status FieldError(absl::string_view field, absl::string_view got,
                        absl::string_view expected) {
  absl::Status status = absl::InvalidArgumentError(
      absl::StrCat(field, ": got ", Shortened(got), ", expected ", expected));
  status.SetPayload(kFieldPayload, absl::Cord(field));
  return status;
}

std::optional<std::string> FieldOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldPayload);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

}  // namespace attn
