// Inspect on the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "proto/codec/call_codec.h"
#include "proto/codec/response_codec.h"
#include "proto/codec/schema.h"
#include "proto/codec/wire_chunk.h"

namespace attn {

// Which views a request names.
struct InspectViews {
  bool logits = false;
  bool masked_logits = false;
  bool weights = false;
  bool contribution = false;
  bool gradient_weight = false;

  bool any() const {
    return logits || masked_logits || weights || contribution ||
           gradient_weight;
  }
};

// What Inspect asks for beside the call itself. The window is held against the
// shapes, and the tiles against the schema, by those who compute.
struct InspectQuestion {
  InspectViews views;
  v1::InspectWindow window;
  // Absent: every element.
  std::optional<v1::InspectTiles> tiles;
  std::vector<double> sweep_temperatures;
};

// A decoded InspectRequest; args.d_output is there if the gradient view is.
struct InspectCall : WireCall {
  InspectQuestion question;
};

// Reads one InspectRequest of `size` bytes, with the errors of
// DecodeAttendRequest(); "views[1]", "sweep_temperatures[3]" and "d_output" are
// checked too.
absl::StatusOr<InspectCall> DecodeInspectRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes);

// The reverse, for clients: d_output is that of the args, with `bshd` as q.
struct InspectMessage : CallMessage {
  InspectQuestion question;
};

// The chunks refer to the views' memory, as those of EncodeAttendRequest().
std::vector<WireChunk> EncodeInspectRequest(const InspectMessage& message);

using InspectResult = WireResult<v1::InspectResponse>;

// Reads one InspectResponse of `size` bytes. INVALID_ARGUMENT that names the
// field if it cannot be understood.
absl::StatusOr<InspectResult> DecodeInspectResponse(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size);

}  // namespace attn
