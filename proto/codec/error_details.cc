#include "proto/codec/error_details.h"

#include <cstdint>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "google/protobuf/io/coded_stream.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/field_reader.h"

namespace attn {
namespace {

using google::protobuf::io::CodedInputStream;

constexpr char kReasonPayload[] = "attn/reason";
constexpr char kBadRequest[] = "type.googleapis.com/google.rpc.BadRequest";
constexpr char kRetryInfo[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr char kErrorInfo[] = "type.googleapis.com/google.rpc.ErrorInfo";

// Field numbers of google/rpc/status.proto, error_details.proto and
// google/protobuf/any.proto, duration.proto.
constexpr int kStatusCode = 1;
constexpr int kStatusMessage = 2;
constexpr int kStatusDetails = 3;
constexpr int kAnyTypeUrl = 1;
constexpr int kAnyValue = 2;
constexpr int kBadRequestViolations = 1;
constexpr int kViolationField = 1;
constexpr int kViolationDescription = 2;
constexpr int kRetryInfoDelay = 1;
constexpr int kDurationSeconds = 1;
constexpr int kDurationNanos = 2;
constexpr int kErrorInfoReason = 1;
constexpr int kErrorInfoDomain = 2;

void AddBytes(int field, absl::string_view value, std::string& message) {
  AppendDelimiter(field, value.size(), message);
  absl::StrAppend(&message, value);
}

// proto3 does not write a zero. A negative value would take ten bytes, as in
// every protobuf.
void AddInt(int field, int64_t value, std::string& message) {
  if (value == 0) return;
  static constexpr int kWireTypeBits = 3;
  AppendVarint(static_cast<uint64_t>(field) << kWireTypeBits, message);
  AppendVarint(static_cast<uint64_t>(value), message);
}

void AddDetail(absl::string_view type_url, absl::string_view value,
               std::string& status) {
  std::string any;
  AddBytes(kAnyTypeUrl, type_url, any);
  if (!value.empty()) AddBytes(kAnyValue, value, any);
  AddBytes(kStatusDetails, any, status);
}

std::string BadRequest(absl::string_view field, absl::string_view description) {
  std::string violation;
  AddBytes(kViolationField, field, violation);
  AddBytes(kViolationDescription, description, violation);
  std::string message;
  AddBytes(kBadRequestViolations, violation, message);
  return message;
}

std::string RetryInfo(absl::Duration delay) {
  const int64_t nanoseconds = absl::ToInt64Nanoseconds(delay);
  static constexpr int64_t kNanosPerSecond = 1'000'000'000;
  std::string duration;
  AddInt(kDurationSeconds, nanoseconds / kNanosPerSecond, duration);
  AddInt(kDurationNanos, nanoseconds % kNanosPerSecond, duration);
  std::string message;
  AddBytes(kRetryInfoDelay, duration, message);
  return message;
}

std::string ErrorInfo(const absl::Status& status) {
  std::string message;
  const auto marked = status.GetPayload(kReasonPayload);
  const std::string reason = marked.has_value()
                                 ? std::string(*marked)
                                 : absl::StatusCodeToString(status.code());
  AddBytes(kErrorInfoReason, reason, message);
  AddBytes(kErrorInfoDomain, kErrorDomain, message);
  return message;
}

// ---------------------------------------------------------------- decoding

// Calls `take(fields)` for each field of the message in `bytes`. A `take` that
// does not want a field must skip it.
template <typename Take>
void ForEachField(absl::string_view bytes, const Take& take) {
  CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  input.PushLimit(static_cast<int>(bytes.size()));
  FieldReader fields(input);
  while (fields.Next()) take(fields);
}

// The last field `number` of the message in `bytes`, or nothing.
std::optional<std::string> BytesField(absl::string_view bytes, int number) {
  std::optional<std::string> value;
  ForEachField(bytes, [number, &value](FieldReader& fields) {
    std::string taken;
    if (fields.Number() != number || !fields.IsDelimited()) {
      fields.Skip();
    } else if (fields.TakeBytes(&taken)) {
      value = taken;
    }
  });
  return value;
}

int64_t IntField(absl::string_view bytes, int number) {
  uint64_t value = 0;
  ForEachField(bytes, [number, &value](FieldReader& fields) {
    if (fields.Number() == number) {
      fields.TakeVarint(&value);
    } else {
      fields.Skip();
    }
  });
  return static_cast<int64_t>(value);
}

void DecodeDetail(absl::string_view any, ErrorDetails& details) {
  const std::string type_url = BytesField(any, kAnyTypeUrl).value_or("");
  const std::string value = BytesField(any, kAnyValue).value_or("");
  if (type_url == kBadRequest) {
    const auto violation = BytesField(value, kBadRequestViolations);
    if (violation) details.field = BytesField(*violation, kViolationField);
  } else if (type_url == kRetryInfo) {
    const auto delay = BytesField(value, kRetryInfoDelay).value_or("");
    details.retry_delay = absl::Seconds(IntField(delay, kDurationSeconds)) +
                          absl::Nanoseconds(IntField(delay, kDurationNanos));
  } else if (type_url == kErrorInfo) {
    details.reason = BytesField(value, kErrorInfoReason).value_or("");
  }
}

}  // namespace

absl::Status WithReason(absl::Status status, absl::string_view reason) {
  status.SetPayload(kReasonPayload, absl::Cord(reason));
  return status;
}

std::string EncodeErrorDetails(const absl::Status& status,
                               std::optional<absl::Duration> retry_delay) {
  std::string message;
  AddInt(kStatusCode, static_cast<int>(status.code()), message);
  AddBytes(kStatusMessage, status.message(), message);
  if (const auto field = FieldOf(status); field.has_value()) {
    AddDetail(kBadRequest, BadRequest(*field, status.message()), message);
  }
  if (retry_delay.has_value()) {
    AddDetail(kRetryInfo, RetryInfo(*retry_delay), message);
  }
  AddDetail(kErrorInfo, ErrorInfo(status), message);
  return message;
}

ErrorDetails DecodeErrorDetails(absl::string_view bytes) {
  ErrorDetails details;
  ForEachField(bytes, [&details](FieldReader& fields) {
    std::string any;
    if (fields.Number() != kStatusDetails || !fields.IsDelimited()) {
      fields.Skip();
    } else if (fields.TakeBytes(&any)) {
      DecodeDetail(any, details);
    }
  });
  return details;
}

}  // namespace attn
