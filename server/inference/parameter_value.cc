#include "server/inference/parameter_value.h"

#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/field_error.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"
#include "proto/codec/schema.h"
#include "server/inference/quoted.h"

namespace attn {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using inference::InferParameter;

absl::Status Misfit(const InferParameter& value, absl::string_view field,
                    absl::string_view expected) {
  return FieldError(field, DescribeParameter(value), expected);
}

// Names of the fields that take the message to the one that `path` names; empty
// if there is none. What a tensor is found by is set whole.
std::vector<const FieldDescriptor*> Resolve(const Message& message,
                                            absl::string_view path) {
  std::vector<const FieldDescriptor*> fields;
  const google::protobuf::Descriptor* type = message.GetDescriptor();
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    if (type == nullptr || type == v1::TensorRef::descriptor()) return {};
    const FieldDescriptor* field = type->FindFieldByName(std::string(name));
    if (field == nullptr) return {};
    fields.push_back(field);
    type = field->is_repeated() ? nullptr : field->message_type();
  }
  return fields;
}

absl::Status SetEnum(const InferParameter& value, absl::string_view field,
                     const FieldDescriptor& target, Message& message) {
  const EnumDescriptor& type = *target.enum_type();
  const auto* named = type.FindValueByName(value.string_param());
  if (named == nullptr) {
    std::string expected;
    for (int i = 0; i < type.value_count(); ++i) {
      absl::StrAppend(&expected, i == 0 ? "one of " : ", ",
                      type.value(i)->name());
    }
    return Misfit(value, field, expected);
  }
  message.GetReflection()->SetEnum(&message, &target, named);
  return absl::OkStatus();
}

absl::Status SetUnsigned(const InferParameter& value, absl::string_view field,
                         const FieldDescriptor& target, Message& message) {
  uint64_t number = value.uint64_param();
  bool fits = value.has_uint64_param();
  if (value.has_int64_param() && value.int64_param() >= 0) {
    number = static_cast<uint64_t>(value.int64_param());
    fits = true;
  } else if (value.has_string_param()) {
    fits = absl::SimpleAtoi(value.string_param(), &number);
  }
  if (!fits) return Misfit(value, field, "an integer of 0 or more");
  message.GetReflection()->SetUInt64(&message, &target, number);
  return absl::OkStatus();
}

// Lists and messages: the JSON of one field.
absl::Status SetFromJson(const InferParameter& value, absl::string_view field,
                         const FieldDescriptor& target, Message& message) {
  auto text = AsText(value, field);
  if (!text.ok()) return text.status();
  const std::unique_ptr<Message> parsed(message.New());
  absl::Status status = ParseJson(
      absl::StrCat("{\"", target.name(), "\":", *text, "}"), field, *parsed);
  if (!status.ok()) return status;
  std::vector<const FieldDescriptor*> set;
  parsed->GetReflection()->ListFields(*parsed, &set);
  // Text that goes on behind the value would set another.
  if (set.size() > 1 || (set.size() == 1 && set[0] != &target)) {
    return Misfit(value, field, "the JSON of one value");
  }
  message.MergeFrom(*parsed);
  return absl::OkStatus();
}

absl::Status SetValue(const InferParameter& value, absl::string_view field,
                      const FieldDescriptor& target, Message& message) {
  if (target.is_repeated() || target.message_type() != nullptr) {
    return SetFromJson(value, field, target, message);
  }
  const Reflection& reflection = *message.GetReflection();
  switch (target.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: {
      const auto truth = AsBool(value, field);
      if (truth.ok()) reflection.SetBool(&message, &target, *truth);
      return truth.status();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      const auto number = AsInt64(value, field);
      if (number.ok()) reflection.SetInt64(&message, &target, *number);
      return number.status();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const auto number = AsDouble(value, field);
      if (number.ok()) reflection.SetDouble(&message, &target, *number);
      return number.status();
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const auto text = AsText(value, field);
      if (text.ok()) reflection.SetString(&message, &target, *text);
      return text.status();
    }
    case FieldDescriptor::CPPTYPE_UINT64:
      return SetUnsigned(value, field, target, message);
    case FieldDescriptor::CPPTYPE_ENUM:
      return SetEnum(value, field, target, message);
    default:
      // The schema has no such field.
      return absl::InternalError(absl::StrCat(field, ": of no known type"));
  }
}

// The first line of what the parser of JSON says: others draw its text.
std::string FirstLine(absl::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

std::string DescribeParameter(const InferParameter& value) {
  switch (value.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return value.bool_param() ? "true" : "false";
    case InferParameter::kInt64Param:
      return absl::StrCat(value.int64_param());
    case InferParameter::kUint64Param:
      return absl::StrCat(value.uint64_param());
    case InferParameter::kDoubleParam:
      return absl::StrCat(value.double_param());
    case InferParameter::kStringParam:
      return Quoted(value.string_param());
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return "nothing";
}

absl::StatusOr<bool> AsBool(const InferParameter& value,
                            absl::string_view field) {
  if (value.has_bool_param()) return value.bool_param();
  if (value.string_param() == "true") return true;
  if (value.string_param() == "false") return false;
  return Misfit(value, field, "true or false");
}

absl::StatusOr<int64_t> AsInt64(const InferParameter& value,
                                absl::string_view field) {
  if (value.has_int64_param()) return value.int64_param();
  constexpr auto kMost =
      static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (value.has_uint64_param() && value.uint64_param() <= kMost) {
    return static_cast<int64_t>(value.uint64_param());
  }
  int64_t number = 0;
  if (value.has_string_param() &&
      absl::SimpleAtoi(value.string_param(), &number)) {
    return number;
  }
  return Misfit(value, field, "an integer");
}

absl::StatusOr<double> AsDouble(const InferParameter& value,
                                absl::string_view field) {
  if (value.has_double_param()) return value.double_param();
  if (value.has_int64_param()) return static_cast<double>(value.int64_param());
  if (value.has_uint64_param()) {
    return static_cast<double>(value.uint64_param());
  }
  double number = 0;
  if (value.has_string_param() &&
      absl::SimpleAtod(value.string_param(), &number)) {
    return number;
  }
  return Misfit(value, field, "a number");
}

absl::StatusOr<std::string> AsText(const InferParameter& value,
                                   absl::string_view field) {
  if (value.has_string_param()) return value.string_param();
  return Misfit(value, field, "text");
}

absl::Status ParseJson(const std::string& json, absl::string_view field,
                       Message& message) {
  const auto status =
      google::protobuf::util::JsonStringToMessage(json, &message);
  if (status.ok()) return absl::OkStatus();
  const auto why = status.message();
  return FieldError(
      field,
      absl::StrCat("JSON that is not understood: ",
                   FirstLine({why.data(), why.size()})),
      absl::StrCat("the JSON of ", message.GetDescriptor()->full_name()));
}

absl::StatusOr<bool> SetField(Message& message, absl::string_view path,
                              const InferParameter& value,
                              absl::string_view field) {
  const std::vector<const FieldDescriptor*> fields = Resolve(message, path);
  if (fields.empty()) return false;
  Message* holder = &message;
  for (size_t i = 0; i + 1 < fields.size(); ++i) {
    holder = holder->GetReflection()->MutableMessage(holder, fields[i]);
  }
  const FieldDescriptor& target = *fields.back();
  const Reflection& reflection = *holder->GetReflection();
  const bool set = target.is_repeated()
                       ? reflection.FieldSize(*holder, &target) > 0
                       : reflection.HasField(*holder, &target);
  if (set) return Misfit(value, field, "nothing: the spec has it already");
  absl::Status status = SetValue(value, field, target, *holder);
  if (!status.ok()) return status;
  return true;
}

}  // namespace attn
