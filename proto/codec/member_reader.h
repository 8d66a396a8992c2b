// Reads one member of a stage and remembers the first thing that is wrong.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "proto/codec/schema.h"

namespace attn {

// A field of a message with presence.
template <typename T>
std::optional<T> Optional(bool present, T value) {
  return present ? std::optional<T>(value) : std::nullopt;
}

// Values are read one after the other; Done() gives the member or the first
// error. Thread-compatible.
class MemberReader {
 public:
  // `field` is the member's path, e.g. "spec.score.bilinear".
  explicit MemberReader(std::string field) : field_(std::move(field)) {}

  // Index of an input; an error if the reference is unset.
  uint32_t Ref(bool present, const v1::TensorRef& ref, const char* name);
  // The same where the tensor may be left out.
  std::optional<uint32_t> OptionalRef(bool present, const v1::TensorRef& ref,
                                      const char* name);
  // An enum whose values are those of the wire. `unset` is what 0 stands for;
  // nothing: 0 is an error.
  template <typename E>
  E Enum(int value, const google::protobuf::EnumDescriptor* type,
         const char* name, std::optional<E> unset = std::nullopt) {
    CheckEnum(value, type, name, unset.has_value());
    return value == 0 && unset.has_value() ? *unset : static_cast<E>(value);
  }
  // Takes over the error of a part.
  void Update(const absl::Status& status) { status_.Update(status); }
  const std::string& field() const { return field_; }

  template <typename Spec>
  absl::StatusOr<Spec> Done(Spec spec) {
    if (!status_.ok()) return status_;
    return spec;
  }

 private:
  void CheckEnum(int value, const google::protobuf::EnumDescriptor* type,
                 const char* name, bool zero_is_legal);

  std::string field_;
  absl::Status status_;
};

}  // namespace attn
