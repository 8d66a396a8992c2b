// One message of an AttendStream, either way: which call it is about, and where
// its part lies. The part is read from the same bytes afterwards, so that its
// payloads are copied once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "google/protobuf/message_lite.h"
#include "proto/codec/wire_chunk.h"

namespace attn {

// Bytes of a message.
struct WireRange {
  int64_t offset = 0;
  int64_t size = 0;
};

// A TensorChunk or an OutputChunk.
struct StreamChunk {
  // The enum's value.
  int tensor = 0;
  uint32_t index = 0;
  // In the tensor's data.
  int64_t offset = 0;
  WireRange data{};
};

// An AttendStreamRequest or an AttendStreamResponse.
struct StreamMessage {
  uint64_t call = 0;
  int64_t timeout_ms = 0;
  int64_t max_message_bytes = 0;
  // The number of the part that is set; 0: none.
  int part = 0;
  WireRange body{};
  // If that is the part.
  StreamChunk chunk{};
};

// Reads `size` bytes as a message of `type`; the fields may come in any order.
// Copies nothing. INVALID_ARGUMENT that names the field for malformed bytes and
// for a second part.
absl::StatusOr<StreamMessage> ReadStreamMessage(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    const google::protobuf::Descriptor* type);

// The chunks of a message whose part `part` is the message `body`. `head` holds
// all before it.
std::vector<WireChunk> EncodeStreamPart(
    const google::protobuf::MessageLite& head, int part,
    std::vector<WireChunk> body);

// The chunks of a message that brings chunk.data.size bytes at `data`, which
// are borrowed; chunk.data.offset does not matter. Both ways are alike.
std::vector<WireChunk> EncodeStreamChunk(uint64_t call,
                                         const StreamChunk& chunk,
                                         const std::byte* data);

// Room for what EncodeStreamChunk() writes beside the data.
inline constexpr int64_t kStreamChunkOverhead = 64;

}  // namespace attn
