// A ModelInferRequest as the AttendRequest that it stands for.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "proto/codec/chunk_assembly.h"
#include "proto/codec/schema.h"
#include "proto/codec/wire_message.h"
#include "server/inference/field_names.h"
#include "server/inference/infer_message.h"
#include "server/inference/infer_model.h"

namespace attn {

// What the reply says of the request. A value; thread-compatible.
struct InferReplyForm {
  const InferModel* model = nullptr;
  std::string id;
  // Fields of AttendResponse, in the order in which they were asked for.
  std::vector<const google::protobuf::FieldDescriptor*> outputs;
};

// Move-only; thread-compatible.
struct InferCall {
  // All but its tensors, and these: what DecodeAttendParts() takes.
  v1::AttendRequest request;
  WireMessage tensors;
  InferReplyForm form;
  absl::Duration timeout = absl::InfiniteDuration();
};

// INVALID_ARGUMENT names the input, output or parameter that is unknown or does
// not fit; NOT_FOUND names the model. `names` learns what errors of the
// AttendRequest are about. `book` is asked for what typed contents take beside
// the message.
absl::StatusOr<InferCall> TranslateInferMessage(InferMessage message,
                                                const BookBytes& book,
                                                FieldNames& names);

}  // namespace attn
