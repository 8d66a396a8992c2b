// Values of parameters of the Open Inference Protocol, and fields of messages
// that they set.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "inference/open_inference.pb.h"

namespace attn {

// The parameter as a value of that type; text that spells one is taken too.
// INVALID_ARGUMENT that names `field`.
absl::StatusOr<bool> AsBool(const inference::InferParameter& value,
                            absl::string_view field);
absl::StatusOr<int64_t> AsInt64(const inference::InferParameter& value,
                                absl::string_view field);
absl::StatusOr<double> AsDouble(const inference::InferParameter& value,
                                absl::string_view field);
// Text alone.
absl::StatusOr<std::string> AsText(const inference::InferParameter& value,
                                   absl::string_view field);

// The value in words: "1.5", "\"abc\"", "nothing".
std::string DescribeParameter(const inference::InferParameter& value);

// Parses the JSON of a message, as protobuf has it, into `message`.
absl::Status ParseJson(const std::string& json, absl::string_view field,
                       google::protobuf::Message& message);

// Sets a field of `message`: `path` is its name, or the names of the fields
// down to it with dots between. Enums are text; lists and messages are text
// that holds their JSON. False: there is no such field, and nothing was set.
// INVALID_ARGUMENT that names `field` for a value of another type, and for a
// field that is set already.
absl::StatusOr<bool> SetField(google::protobuf::Message& message,
                              absl::string_view path,
                              const inference::InferParameter& value,
                              absl::string_view field);

}  // namespace attn
