// One call of an AttendStream: an Attend call whose request may come in chunks,
// and whose response may leave in chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/codec/attend_stream_codec.h"
#include "server/rpc/attend_job.h"

namespace attn {

// With a `request`: Run(). With a `header`: Open(); then, until it has all its
// bytes, Expect() and a copy for each chunk; then Complete(). What Abandon()
// and the methods below may not do at once, the caller keeps apart; thread-safe
// as CallJob otherwise.
class AttendStreamJob final : public AttendJob {
 public:
  static constexpr char kMethod[] = "AttendStream";

  // `opening` is what ReadStreamMessage() gave of the message that Run() or
  // Open() is given.
  AttendStreamJob(const CallContext& context, Caller caller, Reply reply,
                  const StreamMessage& opening)
      : AttendJob(context, kMethod, std::move(caller), std::move(reply)),
        opening_(opening) {}

  uint64_t number() const { return opening_.call; }

  // Where the bytes of a chunk belong; counts them, and `message_bytes` of the
  // message that they are in.
  absl::StatusOr<std::byte*> Expect(const StreamChunk& chunk,
                                    int64_t message_bytes);
  bool has_all_bytes() const { return assembly_.complete(); }
  const ChunkAssembly& assembly() const { return assembly_; }

  // The messages of the answer after the one that the reply has.
  std::vector<grpc::ByteBuffer> TakeMoreMessages() {
    return std::move(more_messages_);
  }

 private:
  absl::StatusOr<WireCall*> Read(
      google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
      int64_t max_payload_bytes) override;
  absl::StatusOr<CallCost> Prepare(Engine& engine) override;
  grpc::ByteBuffer Encode(const CallReport& report) override;
  const char* LargerCallsHint() const override { return ""; }

  int64_t max_answer_bytes() const;

  const StreamMessage opening_;
  ChunkAssembly assembly_;
  std::vector<grpc::ByteBuffer> more_messages_;
};

// The messages of an answer, of `limit` bytes at most: a whole one if it fits,
// otherwise a header and chunks that refer to the tensors' memory.
std::vector<grpc::ByteBuffer> EncodeAnswer(uint64_t call,
                                           const v1::AttendResponse& header,
                                           std::vector<ResponseTensor> tensors,
                                           int64_t limit);

// The answer of a call that failed.
grpc::ByteBuffer EncodeFailure(uint64_t call, const absl::Status& status);

}  // namespace attn
