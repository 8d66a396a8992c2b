// What an error says of an enum value or a oneof that is not understood.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace attn {

// FieldError for `value`, with the legal names of `type` as the schema has
// them: "one of DATA_TYPE_F32, DATA_TYPE_F16, ...". With `zero_is_legal`, the
// value 0 is among them.
absl::Status EnumError(absl::string_view field, int value,
                       const google::protobuf::EnumDescriptor* type,
                       bool zero_is_legal);

// FieldError for a oneof "kind" of `message` that is unset, or that holds a
// member this build does not know: "one of dense, alibi".
absl::Status OneofError(const std::string& field,
                        const google::protobuf::Message& message);

}  // namespace attn
