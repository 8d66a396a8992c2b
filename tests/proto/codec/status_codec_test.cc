#include "proto/codec/status_codec.h"

#include <string>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::DynamicMessageFactory;
using google::protobuf::FileDescriptorProto;
using google::protobuf::Message;
using google::protobuf::TextFormat;

// The published schema of google.rpc, as far as we use it, for protobuf's own
// machinery.
constexpr char kRpcSchema[] = R"pb(
  name: "rpc.proto"
  package: "google.rpc"
  syntax: "proto3"
  dependency: "google/protobuf/any.proto"
  dependency: "google/protobuf/duration.proto"
  message_type {
    name: "Status"
    field { name: "code" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
    field { name: "message" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
    field {
      name: "details"
      number: 3
      type: TYPE_MESSAGE
      type_name: ".google.protobuf.Any"
      label: LABEL_REPEATED
    }
  }
  message_type {
    name: "RetryInfo"
    field {
      name: "retry_delay"
      number: 1
      type: TYPE_MESSAGE
      type_name: ".google.protobuf.Duration"
      label: LABEL_OPTIONAL
    }
  }
  message_type {
    name: "ErrorInfo"
    field { name: "reason" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "domain" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  }
  message_type {
    name: "BadRequest"
    nested_type {
      name: "FieldViolation"
      field { name: "field" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
      field {
        name: "description"
        number: 2
        type: TYPE_STRING
        label: LABEL_OPTIONAL
      }
    }
    field {
      name: "field_violations"
      number: 1
      type: TYPE_MESSAGE
      type_name: ".google.rpc.BadRequest.FieldViolation"
      label: LABEL_REPEATED
    }
  }
)pb";

// google.rpc messages by reflection.
class RpcSchema {
 public:
  RpcSchema() {
    FileDescriptorProto file;
    for (const FileDescriptor* used :
         {google::protobuf::Any::descriptor()->file(),
          google::protobuf::Duration::descriptor()->file()}) {
      file.Clear();
      used->CopyTo(&file);
      pool_.BuildFile(file);
    }
    file.Clear();
    EXPECT_TRUE(TextFormat::ParseFromString(kRpcSchema, &file));
    EXPECT_NE(pool_.BuildFile(file), nullptr);
  }

  // The text form of google.rpc.Status in `bytes`, details expanded.
  std::string ToText(const std::string& bytes) {
    const auto status = New();
    EXPECT_TRUE(status->ParseFromString(bytes));
    TextFormat::Printer printer;
    printer.SetExpandAny(true);
    printer.SetSingleLineMode(true);
    printer.SetUseShortRepeatedPrimitives(true);
    std::string text;
    EXPECT_TRUE(printer.PrintToString(*status, &text));
    return text;
  }
  // The bytes of google.rpc.Status in text form.
  std::string ToBytes(const std::string& text) {
    const auto status = New();
    EXPECT_TRUE(TextFormat::ParseFromString(text, status.get()));
    return status->SerializeAsString();
  }

 private:
  using FileDescriptor = google::protobuf::FileDescriptor;

  std::unique_ptr<Message> New() {
    const Descriptor* type = pool_.FindMessageTypeByName("google.rpc.Status");
    return std::unique_ptr<Message>(factory_.GetPrototype(type)->New());
  }

  DescriptorPool pool_;
  DynamicMessageFactory factory_{&pool_};
};

TEST(ErrorDetails, ProtobufReadsAFieldErrorAsABadRequest) {
  const absl::Status status = FieldError("q.shape", "rank 3", "rank 4");
  EXPECT_EQ(RpcSchema().ToText(EncodeErrorDetails(status, std::nullopt)),
            "code: 3 message: \"q.shape: got rank 3, expected rank 4\" "
            "details { [type.googleapis.com/google.rpc.BadRequest] "
            "{ field_violations { field: \"q.shape\" description: "
            "\"q.shape: got rank 3, expected rank 4\" } } } "
            "details { [type.googleapis.com/google.rpc.ErrorInfo] "
            "{ reason: \"INVALID_ARGUMENT\" domain: \"attention.v1\" } } ");
}

TEST(ErrorDetails, ProtobufReadsADelayAsRetryInfo) {
  EXPECT_EQ(
      RpcSchema().ToText(EncodeErrorDetails(
          absl::ResourceExhaustedError("full"), absl::Milliseconds(2250))),
      "code: 8 message: \"full\" "
      "details { [type.googleapis.com/google.rpc.RetryInfo] "
      "{ retry_delay { seconds: 2 nanos: 250000000 } } } "
      "details { [type.googleapis.com/google.rpc.ErrorInfo] "
      "{ reason: \"RESOURCE_EXHAUSTED\" domain: \"attention.v1\" } } ");
}

TEST(ErrorDetails, WhatProtobufWroteIsRead) {
  const std::string bytes = RpcSchema().ToBytes(R"pb(
    code: 3
    details {
      type_url: "type.googleapis.com/google.rpc.DebugInfo"
      value: "\n\003abc"
    }
    details {
      [type.googleapis.com/google.rpc.RetryInfo] {
        retry_delay { seconds: 1 nanos: 5 }
      }
    }
    details {
      [type.googleapis.com/google.rpc.BadRequest] {
        field_violations { field: "spec.softcap" description: "not that" }
      }
    }
    details {
      [type.googleapis.com/google.rpc.ErrorInfo] { reason: "WHY" domain: "d" }
    }
  )pb");
  const ErrorDetails details = DecodeErrorDetails({bytes.data(), bytes.size()});
  EXPECT_EQ(details.field, "spec.softcap");
  EXPECT_EQ(details.retry_delay, absl::Seconds(1) + absl::Nanoseconds(5));
  EXPECT_EQ(details.reason, "WHY");
}

TEST(ErrorDetails, BrokenBytesGiveWhatWasUnderstood) {
  const std::string bytes = EncodeErrorDetails(
      FieldError("k", "nothing", "a tensor"), absl::Seconds(3));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const ErrorDetails details = DecodeErrorDetails({bytes.data(), size});
    EXPECT_THAT(details.field.value_or("k"), "k");
    EXPECT_EQ(details.reason, "");
  }
}

TEST(StatusCodec, FieldAndDelaySurviveTheTrip) {
  const absl::Status sent =
      WithRetryDelay(FieldError("q", "x", "y"), absl::Milliseconds(40));
  const absl::Status received = FromGrpcStatus(ToGrpcStatus(sent));
  EXPECT_EQ(received.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(received.message()), std::string(sent.message()));
  EXPECT_EQ(FieldOf(received), "q");
  EXPECT_EQ(RetryDelayOf(received), absl::Milliseconds(40));
}

TEST(StatusCodec, WithoutMarksThereAreNone) {
  const absl::Status received =
      FromGrpcStatus(ToGrpcStatus(absl::UnavailableError("draining")));
  EXPECT_EQ(received.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(FieldOf(received), std::nullopt);
  EXPECT_EQ(RetryDelayOf(received), std::nullopt);
}

TEST(StatusCodec, OkStaysOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(StatusCodec, EveryCodeIsTheSameOnBothSides) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "m");
    EXPECT_EQ(static_cast<int>(ToGrpcStatus(status).error_code()), code);
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)).code(), status.code());
  }
}

}  // namespace
}  // namespace attn
