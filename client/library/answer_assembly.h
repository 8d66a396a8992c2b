// The answer to one call of a stream, from one message or from many.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/codec/attend_stream_codec.h"

namespace attn {

// An AttendStreamResponse. INTERNAL for bytes that are none.
absl::StatusOr<StreamMessage> ReadAnswerMessage(grpc::ByteBuffer& message);

// Thread-compatible.
class AnswerAssembly {
 public:
  // What the message, which ReadAnswerMessage() gave as `part`, says: the error
  // of a call that failed, or of an answer that cannot be read or whose tensors
  // have more than `max_bytes`. The answer is there if it is OK and done() is
  // true. Each byte of a tensor is copied once.
  absl::Status Take(const StreamMessage& part, grpc::ByteBuffer& message,
                    int64_t max_bytes);
  bool done() const { return has_header_ && assembly_.complete(); }
  AttendResult TakeResult() { return std::move(result_); }

 private:
  absl::Status TakeResponse(const WireRange& body, grpc::ByteBuffer& message,
                            int64_t max_bytes);
  absl::Status TakeChunk(const StreamChunk& chunk, grpc::ByteBuffer& message);

  AttendResult result_;
  bool has_header_ = false;
  ChunkAssembly assembly_;
};

}  // namespace attn
