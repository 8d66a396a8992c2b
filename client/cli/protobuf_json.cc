#include "client/cli/protobuf_json.h"

#include <string>

#include "client/io/json_tensor.h"
#include "google/protobuf/descriptor.h"

namespace attn {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::json;

// A singular field, or element `index` of a repeated one.
json ValueToJson(const Message& message, const FieldDescriptor& field,
                 int index) {
  const Reflection& r = *message.GetReflection();
  const bool repeated = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return repeated ? r.GetRepeatedInt32(message, &field, index)
                      : r.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return repeated ? r.GetRepeatedInt64(message, &field, index)
                      : r.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return repeated ? r.GetRepeatedUInt32(message, &field, index)
                      : r.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return repeated ? r.GetRepeatedUInt64(message, &field, index)
                      : r.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return NumberToJson(repeated ? r.GetRepeatedDouble(message, &field, index)
                                   : r.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return NumberToJson(static_cast<double>(
          repeated ? r.GetRepeatedFloat(message, &field, index)
                   : r.GetFloat(message, &field)));
    case FieldDescriptor::CPPTYPE_BOOL:
      return repeated ? r.GetRepeatedBool(message, &field, index)
                      : r.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return (repeated ? r.GetRepeatedEnum(message, &field, index)
                       : r.GetEnum(message, &field))
          ->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return repeated ? r.GetRepeatedString(message, &field, index)
                      : r.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(repeated ? r.GetRepeatedMessage(message, &field, index)
                             : r.GetMessage(message, &field));
  }
  return nullptr;
}

}  // namespace

json ToJson(const Message& message) {
  json document = json::object();
  const auto& descriptor = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (field.is_repeated()) {
      json& list = document[field.name()] = json::array();
      for (int k = 0; k < reflection.FieldSize(message, &field); ++k) {
        list.push_back(ValueToJson(message, field, k));
      }
    } else if (!field.has_presence() || reflection.HasField(message, &field)) {
      document[field.name()] = ValueToJson(message, field, 0);
    }
  }
  return document;
}

}  // namespace attn
