// Choosing the member that a stage's oneof holds.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "proto/codec/enum_names.h"

namespace attn {

// How one member of a stage is read. Each stage has a table of these.
template <typename Spec, typename Message>
struct MemberRow {
  typename Message::KindCase kind;
  absl::StatusOr<Spec> (*decode)(const Message& message,
                                 const std::string& field);
};

template <typename Spec, typename Message, size_t size>
absl::StatusOr<Spec> DecodeMember(const MemberRow<Spec, Message> (&table)[size],
                                  const Message& message,
                                  const std::string& field) {
  for (const MemberRow<Spec, Message>& row : table) {
    if (row.kind == message.kind_case()) return row.decode(message, field);
  }
  return OneofError(field, message);
}

}  // namespace attn
