// AttendBackward on the wire; rules and costs are those of attend_codec.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/gradients.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "proto/codec/call_codec.h"
#include "proto/codec/response_codec.h"
#include "proto/codec/schema.h"
#include "proto/codec/wire_chunk.h"

namespace attn {

// A decoded AttendBackwardRequest. `cotangents` views the payloads, d_output as
// [B, H, S, D] whatever its layout was.
struct BackwardCall : WireCall {
  // Complete: what the request left to the server's choice is chosen; but for
  // the tensors of layers, which are not here yet.
  GradientSelection wanted;
  bool wants_layers = false;
  OutputGradients cotangents;
};

// Reads one AttendBackwardRequest of `size` bytes. Errors as
// DecodeAttendRequest(); also a gradient of an input that is not there or is
// not of floats, and a request without a cotangent.
absl::StatusOr<BackwardCall> DecodeBackwardRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes);

// The reverse, for clients.
struct BackwardMessage : CallMessage {
  // If it names none of q, k, v and inputs: all of them.
  GradientSelection wanted;
  // Null data: not sent. `output` is [B, H, S, D]; it travels in the order of
  // axes that q has.
  OutputGradients cotangents;
};

std::vector<WireChunk> EncodeBackwardRequest(const BackwardMessage& message);

// `header` holds all but the tensors; those of d_inputs and d_layers are in the
// order of header.gradient_inputs and header.gradient_layers.
std::vector<WireChunk> EncodeBackwardResponse(
    const v1::AttendBackwardResponse& header,
    std::vector<ResponseTensor> tensors);

using BackwardResult = WireResult<v1::AttendBackwardResponse>;

// INVALID_ARGUMENT that names the field if it cannot be understood, or if
// gradient_inputs and d_inputs, or gradient_layers and d_layers, are not
// equally many.
absl::StatusOr<BackwardResult> DecodeBackwardResponse(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size);

// The gradient of input `index`; null if the response does not have it.
const ResponseTensor* FindInputGradient(const BackwardResult& result,
                                        uint32_t index);
// That of a tensor of a layer.
const ResponseTensor* FindLayerGradient(const BackwardResult& result,
                                        const std::string& layer,
                                        const std::string& tensor);

}  // namespace attn
