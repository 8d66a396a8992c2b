#include "server/rpc/attend_stream_job.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/reply_status.h"

namespace attn {
namespace {

using Request = v1::AttendStreamRequest;
using Response = v1::AttendStreamResponse;

// Of one chunk. Fits the 4 MiB that gRPC's clients take by default, and is long
// enough for a message's own cost not to show.
constexpr int64_t kChunkBytes = int64_t{2} << 20;

// What the envelope of a response takes.
constexpr int64_t kEnvelopeBytes = 32;

v1::AttendStreamResponse HeadOf(uint64_t call) {
  Response head;
  head.set_call(call);
  return head;
}

// The memory of a payload, for as long as slices refer to it. Null: borrowed.
std::shared_ptr<const void> Keep(Payload& payload) {
  if (payload.borrowed != nullptr) return nullptr;
  auto owner = std::make_shared<AlignedBuffer>(std::move(payload.owned));
  payload.borrowed = owner->data();
  return owner;
}

void AddChunks(uint64_t call, DetachedPayload part, int64_t chunk_bytes,
               std::vector<grpc::ByteBuffer>& messages) {
  const auto owner = Keep(part.payload);
  const auto size = static_cast<int64_t>(part.payload.size);
  for (int64_t offset = 0; offset < size; offset += chunk_bytes) {
    const StreamChunk chunk{.tensor = OutputSlotOf(part.field),
                            .offset = offset,
                            .data = {0, std::min(chunk_bytes, size - offset)}};
    messages.push_back(ToByteBuffer(
        EncodeStreamChunk(call, chunk, part.payload.borrowed + offset), owner));
  }
}

}  // namespace

absl::StatusOr<std::byte*> AttendStreamJob::Expect(const StreamChunk& chunk,
                                                   int64_t message_bytes) {
  CountReceived(message_bytes);
  const auto field = RequestFieldOf(chunk);
  if (!field.ok()) return field.status();
  return assembly_.Next(*field, chunk.index, chunk.offset, chunk.data.size);
}

absl::StatusOr<WireCall*> AttendStreamJob::Read(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t,
    int64_t max_payload_bytes) {
  if (!stream.Skip(static_cast<int>(opening_.body.offset))) {
    return absl::InternalError("the request's bytes cannot be read");
  }
  const int64_t size = opening_.body.size;
  const auto book = [this](int64_t bytes) { return BookMore(bytes); };
  auto call =
      opening_.part == Request::kHeaderFieldNumber
          ? DecodeAttendHeader(stream, size, max_payload_bytes, book, assembly_)
          : DecodeAttendRequest(stream, size, max_payload_bytes);
  if (!call.ok()) return call.status();
  call_ = *std::move(call);
  return &call_;
}

absl::StatusOr<CallCost> AttendStreamJob::Prepare(Engine& engine) {
  auto cost = AttendJob::Prepare(engine);
  if (!cost.ok()) return cost;
  // What must fit into a message: the rest may leave in chunks.
  cost->message_bytes = response_.header_bytes();
  const int64_t limit = opening_.max_message_bytes;
  if (limit > 0 && limit < cost->message_bytes) {
    return FieldError("max_message_bytes", absl::StrCat(limit),
                      absl::StrCat(cost->message_bytes,
                                   " or more: the answer but for its tensors"));
  }
  return cost;
}

int64_t AttendStreamJob::max_answer_bytes() const {
  const int64_t limit = context().max_message_bytes;
  const int64_t wanted = opening_.max_message_bytes;
  return wanted > 0 ? std::min(wanted, limit) : limit;
}

grpc::ByteBuffer AttendStreamJob::Encode(const CallReport& report) {
  const v1::AttendResponse header = MakeHeader(report);
  more_messages_ = EncodeAnswer(opening_.call, header, response_.TakeTensors(),
                                max_answer_bytes());
  grpc::ByteBuffer first;
  first.Swap(&more_messages_.front());
  more_messages_.erase(more_messages_.begin());
  for (const grpc::ByteBuffer& message : more_messages_) {
    CountSent(static_cast<int64_t>(message.Length()));
  }
  return first;
}

std::vector<grpc::ByteBuffer> EncodeAnswer(uint64_t call,
                                           const v1::AttendResponse& header,
                                           std::vector<ResponseTensor> tensors,
                                           int64_t limit) {
  auto bytes = static_cast<int64_t>(header.ByteSizeLong()) + kEnvelopeBytes;
  for (const ResponseTensor& tensor : tensors) {
    bytes += static_cast<int64_t>(tensor.data.size()) + kStreamChunkOverhead;
  }
  std::vector<grpc::ByteBuffer> messages;
  if (bytes <= limit) {
    messages.push_back(ToByteBuffer(
        EncodeStreamPart(HeadOf(call), Response::kResponseFieldNumber,
                         EncodeAttendResponse(header, std::move(tensors)))));
    return messages;
  }
  SplitMessage split = SplitAttendResponse(header, std::move(tensors));
  messages.push_back(ToByteBuffer(EncodeStreamPart(
      HeadOf(call), Response::kHeaderFieldNumber, std::move(split.header))));
  const int64_t chunk_bytes =
      std::clamp<int64_t>(limit - kStreamChunkOverhead, 1, kChunkBytes);
  for (DetachedPayload& part : split.payloads) {
    AddChunks(call, std::move(part), chunk_bytes, messages);
  }
  return messages;
}

grpc::ByteBuffer EncodeFailure(uint64_t call, const absl::Status& status) {
  WireChunk body;
  // google.rpc.Status, as in a unary call's trailer.
  body.bytes = ToReplyStatus(status).error_details();
  std::vector<WireChunk> chunks;
  chunks.push_back(std::move(body));
  return ToByteBuffer(EncodeStreamPart(
      HeadOf(call), Response::kStatusFieldNumber, std::move(chunks)));
}

}  // namespace attn
