// Attend on the wire: plain protobuf, read and written without parsing the
// tensor payloads into messages.
//
// A request is read from any ZeroCopyInputStream: metadata is parsed as
// protobuf, each Tensor.data is gathered once into 64-byte aligned memory. A
// response is a list of chunks: header bytes, then payloads that are handed
// over without a copy. Every protobuf client can talk to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/problem.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "proto/codec/call_codec.h"
#include "proto/codec/response_codec.h"
#include "proto/codec/schema.h"
#include "proto/codec/wire_chunk.h"

namespace attn {

// Which outputs a request names.
struct WantedOutputs {
  bool output = false;
  bool lse = false;
  bool logits = false;
  bool masked_logits = false;
  bool weights = false;
  bool row_statistics = false;
  bool head_statistics = false;
  bool lse_with_sink = false;
  bool dropout_keep = false;
  bool state = false;
  bool head_output = false;

  OutputSelection Selection() const {
    return {.output = output,
            .logits = logits,
            .masked_logits = masked_logits,
            .weights = weights,
            .dropout_keep = dropout_keep,
            .state = state,
            .head_output = head_output,
            .statistics = row_statistics || head_statistics};
  }
};

// A decoded AttendRequest or PlanRequest.
struct AttendCall : WireCall {
  WantedOutputs wanted;
  DType output_dtype = DType::kF32;
  std::string kernel;
};

// Reads one AttendRequest of `size` bytes. INVALID_ARGUMENT that names the
// field for what cannot be understood: malformed protobuf, an unknown enum
// value, an unset oneof, a payload whose length does not fit its shape.
// RESOURCE_EXHAUSTED if the payloads exceed `max_payload_bytes`, or all else
// 1 MiB. Each payload byte is copied once; a length is held against the bytes
// that are left before memory is taken for it.
absl::StatusOr<AttendCall> DecodeAttendRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes);

// The same for a plan: views have no data.
absl::StatusOr<AttendCall> DecodePlanRequest(v1::PlanRequest request);

// The reverse, for clients. The chunks refer to the views' memory, which must
// outlive them, and nothing is copied where that memory lies row-major in the
// wire's order; other views are gathered.
struct AttendMessage : CallMessage {
  WantedOutputs wanted;
  // Absent: as q.
  std::optional<DType> output_dtype;
  std::string kernel;
  // In place of q, k and v of `args`, if it has a shape: [B, S, 3, H, D], or
  // [B, S, Hq + 2 * packed_kv_heads, D].
  TensorView qkv;
  int64_t packed_kv_heads = 0;

  bool packed() const { return qkv.shape.rank() > 0; }
};

// The chunks in order are the message, byte for byte what the generated code
// would write. None is empty; an empty message has no chunks.
std::vector<WireChunk> EncodeAttendRequest(const AttendMessage& message);
v1::PlanRequest EncodePlanRequest(const AttendMessage& message);

// `header` holds all but the large tensors (fields >= 16).
std::vector<WireChunk> EncodeAttendResponse(
    const v1::AttendResponse& header, std::vector<ResponseTensor> tensors);

using AttendResult = WireResult<v1::AttendResponse>;

// Reads one AttendResponse of `size` bytes. INVALID_ARGUMENT that names the
// field if it cannot be understood.
absl::StatusOr<AttendResult> DecodeAttendResponse(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size);

}  // namespace attn
