#include "proto/codec/enum_names.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// The member that a newer schema has and this one has not.
std::string UnknownMember(const google::protobuf::Message& message) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return "nothing";
  return absl::StrCat("an unknown member, field ", unknown.field(0).number());
}

std::string OneOf(const std::vector<std::string>& names) {
  return absl::StrCat(names.size() > 1 ? "one of " : "",
                      absl::StrJoin(names, ", "));
}

}  // namespace

absl::Status EnumError(absl::string_view field, int value,
                       const google::protobuf::EnumDescriptor* type,
                       bool zero_is_legal) {
  std::vector<std::string> names;
  for (int i = 0; i < type->value_count(); ++i) {
    if (type->value(i)->number() != 0 || zero_is_legal) {
      names.push_back(type->value(i)->name());
    }
  }
  const auto* known = type->FindValueByNumber(value);
  return FieldError(field,
                    known == nullptr ? absl::StrCat(value) : known->name(),
                    OneOf(names));
}

absl::Status OneofError(const std::string& field,
                        const google::protobuf::Message& message) {
  const auto* oneof = message.GetDescriptor()->FindOneofByName("kind");
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(oneof->field_count()));
  for (int i = 0; i < oneof->field_count(); ++i) {
    names.push_back(oneof->field(i)->name());
  }
  return FieldError(absl::StrCat(field, ".kind"), UnknownMember(message),
                    OneOf(names));
}

}  // namespace attn
