// Attend calls in parts, for AttendStream: a header whose tensors have no data,
// and chunks that bring it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "proto/codec/attend_codec.h"
#include "proto/codec/chunk_assembly.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/stream_message.h"

namespace attn {

// A message and the payloads that it comes without. The chunks of the header
// own their bytes; a payload is owned, or borrows what the message viewed.
struct SplitMessage {
  std::vector<WireChunk> header;
  std::vector<DetachedPayload> payloads;
};

SplitMessage SplitAttendRequest(const AttendMessage& message);
SplitMessage SplitAttendResponse(const v1::AttendResponse& header,
                                 std::vector<ResponseTensor> tensors);

// As DecodeAttendRequest(). Tensors that have elements and no data get memory,
// which `assembly` fills later; the call is not to be run before. `book` is
// asked for their bytes once all but the tensors was understood.
absl::StatusOr<AttendCall> DecodeAttendHeader(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes, const BookBytes& book, ChunkAssembly& assembly);

// The same of a response.
absl::StatusOr<AttendResult> DecodeAttendResponseHeader(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    const BookBytes& book, ChunkAssembly& assembly);

// The tensor that a chunk is about, as the number of its field in AttendRequest
// or AttendResponse, and the reverse. INVALID_ARGUMENT for an unknown one.
absl::StatusOr<int> RequestFieldOf(const StreamChunk& chunk);
absl::StatusOr<int> ResponseFieldOf(const StreamChunk& chunk);
int TensorSlotOf(int request_field);
int OutputSlotOf(int response_field);

// CallStatus: the bytes of a google.rpc.Status as a status.
absl::Status DecodeCallStatus(absl::string_view bytes);

}  // namespace attn
