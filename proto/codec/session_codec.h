// Step of a session on the wire; rules and costs are those of attend_codec.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/v1/session.pb.h"
#include "engine/core/tensor_view.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "proto/codec/call_codec.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/response_codec.h"
#include "proto/codec/schema.h"
#include "proto/codec/wire_chunk.h"

namespace attn {

// The most that OpenSessionRequest.layers may say.
inline constexpr int kMaxSessionLayers = 1024;

// New rows of one layer, as [1, H, n, D] whatever the wire's layout was.
struct StepTensors {
  int layer = 0;
  TensorView q;
  TensorView k;
  TensorView v;
  // Whether q came as [B, S, H, D]: its output goes back the same way.
  bool bshd = false;
};

// A decoded StepRequest. Of WireCall it has the request id, the priority and
// the payloads; what else a call has follows from the session.
struct StepCall : WireCall {
  std::string session_id;
  uint64_t epoch = 0;
  uint64_t step = 0;
  int64_t position = 0;
  // One at least; no layer twice.
  std::vector<StepTensors> layers;
  // Of the numbers above and all that the tensors hold: equal for equal
  // requests, whatever their request ids, and in every process.
  uint64_t digest = 0;
};

// Reads one StepRequest of `size` bytes. Errors as DecodeAttendRequest(); also
// unless q, k and v are one for each of `layers`, of the types that the schema
// says, of rank 4 with a batch of 1, and of equally many tokens, one at least.
absl::StatusOr<StepCall> DecodeStepRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes);
// The same of a StepStreamRequest.
absl::StatusOr<StepCall> DecodeStepStreamRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes);

// The reverse, for clients. Borrows the views' memory until the chunks are
// sent.
struct StepMessage {
  std::string session_id;
  uint64_t epoch = 0;
  uint64_t step = 0;
  int64_t position = 0;
  std::vector<StepTensors> layers;
  std::string request_id;
  v1::Priority priority = v1::PRIORITY_NORMAL;
};

std::vector<WireChunk> EncodeStepRequest(const StepMessage& message);
std::vector<WireChunk> EncodeStepStreamRequest(const StepMessage& message);

// `header` holds all but the outputs, which are in the order of the layers.
std::vector<WireChunk> EncodeStepResponse(const v1::StepResponse& header,
                                          std::vector<ResponseTensor> outputs);
// A StepStreamResponse that holds a StepResponse of these bytes.
std::vector<WireChunk> WrapStepResponse(std::vector<WireChunk> response);

using StepResult = WireResult<v1::StepResponse>;

// Reads one StepResponse of `size` bytes. INVALID_ARGUMENT that names the field
// if it cannot be understood.
absl::StatusOr<StepResult> DecodeStepResponse(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size);

}  // namespace attn
