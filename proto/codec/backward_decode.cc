#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/backward_codec.h"
#include "proto/codec/call_decode.h"
#include "proto/codec/enum_names.h"

namespace attn {
namespace {

using Request = v1::AttendBackwardRequest;

absl::Status DecodeGradients(const Request& request, bool& inputs,
                             BackwardCall& call) {
  GradientSelection& wanted = call.wanted;
  const bool all = request.gradients().empty();
  wanted.q = wanted.k = inputs = call.wants_layers = all;
  wanted.v = all && !MakesValues(call.spec);
  for (int i = 0; i < request.gradients_size(); ++i) {
    switch (request.gradients(i)) {
      case v1::GRADIENT_Q:
        wanted.q = true;
        break;
      case v1::GRADIENT_K:
        wanted.k = true;
        break;
      case v1::GRADIENT_V:
        wanted.v = true;
        break;
      case v1::GRADIENT_INPUTS:
        inputs = true;
        break;
      case v1::GRADIENT_LAYERS:
        call.wants_layers = true;
        break;
      default:
        return EnumError(absl::StrCat("gradients[", i, "]"),
                         request.gradients(i), v1::Gradient_descriptor(),
                         /*zero_is_legal=*/false);
    }
  }
  return absl::OkStatus();
}

// The gradient_inputs that the request names.
absl::Status DecodeIndices(const Request& request,
                           const std::vector<TensorView>& inputs,
                           std::vector<uint32_t>& indices) {
  for (int i = 0; i < request.gradient_inputs_size(); ++i) {
    const uint32_t index = request.gradient_inputs(i);
    const std::string field = absl::StrCat("gradient_inputs[", i, "]");
    if (index >= inputs.size()) {
      return FieldError(field, absl::StrCat(index),
                        absl::StrCat("one of the ", inputs.size(), " inputs"));
    }
    if (!IsFloat(inputs[index].dtype)) {
      return FieldError(field,
                        absl::StrCat(index, ", of ", Name(inputs[index].dtype)),
                        "an input of floats");
    }
    indices.push_back(index);
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return absl::OkStatus();
}

absl::Status DecodeInputs(const Request& request, bool wanted,
                          BackwardCall& call) {
  const std::vector<TensorView>& inputs = call.args.inputs;
  if (!request.gradient_inputs().empty()) {
    if (!wanted) {
      return FieldError(
          "gradient_inputs",
          absl::StrCat(request.gradient_inputs_size(), " indices"),
          "none, or GRADIENT_INPUTS among the gradients");
    }
    return DecodeIndices(request, inputs, call.wanted.inputs);
  }
  for (uint32_t i = 0; wanted && i < inputs.size(); ++i) {
    if (IsFloat(inputs[i].dtype)) call.wanted.inputs.push_back(i);
  }
  return absl::OkStatus();
}

absl::Status DecodeCotangents(BackwardCall& call) {
  call.cotangents.output = call.Extra(Request::kDOutputFieldNumber);
  call.cotangents.lse = call.Extra(Request::kDLseFieldNumber);
  call.wanted.from_output = call.cotangents.output.data != nullptr;
  call.wanted.from_lse = call.cotangents.lse.data != nullptr;
  if (call.wanted.any()) return absl::OkStatus();
  return FieldError("d_output", "nothing", "a tensor here or in d_lse");
}

}  // namespace

absl::StatusOr<BackwardCall> DecodeBackwardRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes) {
  Request request;
  auto message = ReadRequest(stream, size, max_payload_bytes, request);
  if (!message.ok()) return message.status();
  BackwardCall call;
  bool inputs = false;
  absl::Status status = DecodeCall(request, *message, call);
  if (status.ok()) status = DecodeGradients(request, inputs, call);
  if (status.ok()) status = DecodeInputs(request, inputs, call);
  if (status.ok()) status = DecodeCotangents(call);
  if (!status.ok()) return status;
  return call;
}

}  // namespace attn
