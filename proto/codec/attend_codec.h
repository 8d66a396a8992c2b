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
#include "engine/core/aligned_buffer.h"
#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"
#include "engine/core/problem.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "proto/codec/schema.h"

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

  OutputSelection Selection() const {
    return {.output = output,
            .logits = logits,
            .masked_logits = masked_logits,
            .weights = weights,
            .dropout_keep = dropout_keep,
            .state = state};
  }
};

// A decoded AttendRequest or PlanRequest. Owns its payloads; `args` views
// them as [B, H, S, D] whatever the wire's layout was. Move-only.
struct AttendCall {
  AttentionSpec spec;
  AttentionArgs args;
  WantedOutputs wanted;
  DType output_dtype = DType::kF32;
  // Whether q came as [B, S, H, D]; the output goes back the same way.
  bool bshd = false;
  std::string kernel;
  std::string request_id;
  std::vector<AlignedBuffer> storage;
  // Sum of the payloads.
  int64_t payload_bytes = 0;
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
absl::StatusOr<AttendCall> DecodePlanRequest(const v1::PlanRequest& request);

// The reverse, for clients. `args` views q, k and v as [B, H, S, D] here too;
// `bshd` only picks the order of axes on the wire. The chunks refer to the
// views' memory, which must outlive them, and nothing is copied where that
// memory lies row-major in the wire's order; other views are gathered.
struct AttendMessage {
  AttentionSpec spec;
  AttentionArgs args;
  WantedOutputs wanted;
  // Absent: as q.
  std::optional<DType> output_dtype;
  bool bshd = false;
  std::string kernel;
  std::string request_id;
};

// A piece of a message: bytes of its own, a buffer that is given away, or
// memory that is only referred to. Exactly one is set.
struct WireChunk {
  std::string bytes;
  AlignedBuffer owned;
  size_t owned_size = 0;
  const std::byte* borrowed = nullptr;
  size_t borrowed_size = 0;
};

// The chunks in order are the message, byte for byte what the generated code
// would write. None is empty; an empty message has no chunks.
std::vector<WireChunk> EncodeAttendRequest(const AttendMessage& message);
v1::PlanRequest EncodePlanRequest(const AttendMessage& message);

// A tensor of a response. `field` is its number in AttendResponse. `data` is
// row-major in `shape`, which is the wire's: [B, S, H, D] if `bshd`.
struct ResponseTensor {
  int field = 0;
  DType dtype = DType::kF32;
  Shape shape;
  bool bshd = false;
  AlignedBuffer data;
};

// `header` holds all but the large tensors (fields >= 16), which follow it and
// are given away. Byte for byte what the generated code would write.
std::vector<WireChunk> EncodeAttendResponse(
    const v1::AttendResponse& header, std::vector<ResponseTensor> tensors);

// A decoded response: `header` without the large tensors.
struct AttendResult {
  v1::AttendResponse header;
  std::vector<ResponseTensor> tensors;

  // Null if the response does not have it.
  const ResponseTensor* Find(int field) const;
};

// Reads one AttendResponse of `size` bytes. INVALID_ARGUMENT that names the
// field if it cannot be understood.
absl::StatusOr<AttendResult> DecodeAttendResponse(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size);

}  // namespace attn
