#include "proto/codec/member_reader.h"

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/enum_names.h"

namespace attn {

uint32_t MemberReader::Ref(bool present, const v1::TensorRef& ref,
                           const char* name) {
  if (present && ref.source_case() == v1::TensorRef::kInput) {
    return ref.input();
  }
  Update(FieldError(absl::StrCat(field_, ".", name), "nothing",
                    "the index of one of the inputs"));
  return 0;
}

std::optional<uint32_t> MemberReader::OptionalRef(bool present,
                                                  const v1::TensorRef& ref,
                                                  const char* name) {
  if (!present) return std::nullopt;
  return Ref(present, ref, name);
}

void MemberReader::CheckEnum(int value,
                             const google::protobuf::EnumDescriptor* type,
                             const char* name, bool zero_is_legal) {
  const bool known = type->FindValueByNumber(value) != nullptr;
  if (known && (value != 0 || zero_is_legal)) return;
  Update(
      EnumError(absl::StrCat(field_, ".", name), value, type, zero_is_legal));
}

}  // namespace attn
