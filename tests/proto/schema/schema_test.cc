// The wire is for ever: what golden/schema.txt lists must stay as it is.
// Adding is free: append the new lines to the list.
#include "proto/codec/schema.h"

#include <set>
#include <sstream>
#include <string>

#include "attention/v1/session.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inference/open_inference.pb.h"
#include "tests/proto/golden/golden_files.h"

namespace attn {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

std::string PresenceOf(const FieldDescriptor& field) {
  if (field.is_repeated()) return "repeated";
  if (field.real_containing_oneof() != nullptr) {
    return "oneof " + field.real_containing_oneof()->name();
  }
  return field.has_optional_keyword() ? "optional" : "singular";
}

std::string TypeOf(const FieldDescriptor& field) {
  if (field.message_type() != nullptr) return field.message_type()->full_name();
  if (field.enum_type() != nullptr) return field.enum_type()->full_name();
  return field.type_name();
}

void AddMessage(const Descriptor& message, std::set<std::string>& lines) {
  lines.insert("message " + message.full_name());
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    lines.insert("field " + field.full_name() + " = " +
                 std::to_string(field.number()) + ": " + PresenceOf(field) +
                 " " + TypeOf(field));
  }
  for (int i = 0; i < message.nested_type_count(); ++i) {
    AddMessage(*message.nested_type(i), lines);
  }
}

void AddEnum(const EnumDescriptor& type, std::set<std::string>& lines) {
  for (int i = 0; i < type.value_count(); ++i) {
    lines.insert("enum " + type.full_name() + ": " + type.value(i)->name() +
                 " = " + std::to_string(type.value(i)->number()));
  }
}

void AddService(const ServiceDescriptor& service,
                std::set<std::string>& lines) {
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& rpc = *service.method(i);
    lines.insert("rpc " + rpc.full_name() +
                 (rpc.client_streaming() ? ": stream " : ": ") +
                 rpc.input_type()->full_name() +
                 (rpc.server_streaming() ? " -> stream " : " -> ") +
                 rpc.output_type()->full_name());
  }
}

void AddFile(const FileDescriptor& file, std::set<std::string>& lines) {
  for (int i = 0; i < file.message_type_count(); ++i) {
    AddMessage(*file.message_type(i), lines);
  }
  for (int i = 0; i < file.enum_type_count(); ++i) {
    AddEnum(*file.enum_type(i), lines);
  }
  for (int i = 0; i < file.service_count(); ++i) {
    AddService(*file.service(i), lines);
  }
}

std::set<std::string> Schema() {
  std::set<std::string> lines;
  AddFile(*v1::Tensor::descriptor()->file(), lines);
  AddFile(*v1::PutLayerRequest::descriptor()->file(), lines);
  AddFile(*v1::OpenSessionRequest::descriptor()->file(), lines);
  AddFile(*inference::ModelInferRequest::descriptor()->file(), lines);
  return lines;
}

std::set<std::string> FrozenSchema() {
  std::istringstream text(ReadGolden("schema.txt"));
  std::set<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line[0] != '#') lines.insert(line);
  }
  return lines;
}

std::string Missing(const std::set<std::string>& from,
                    const std::set<std::string>& of) {
  std::string lines;
  for (const std::string& line : of) {
    if (!from.contains(line)) lines += line + "\n";
  }
  return lines;
}

TEST(Schema, NothingThatWasFrozenChanged) {
  EXPECT_GT(FrozenSchema().size(), 100U);
  EXPECT_EQ(Missing(Schema(), FrozenSchema()), "")
      << "These lines of golden/schema.txt no longer hold.";
}

TEST(Schema, WhatIsNewIsFrozenToo) {
  EXPECT_EQ(Missing(FrozenSchema(), Schema()), "")
      << "Adding is free: append these lines to golden/schema.txt.";
}

}  // namespace
}  // namespace attn
