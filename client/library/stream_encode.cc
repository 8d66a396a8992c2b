#include "client/library/stream_encode.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "client/library/raw_call.h"
#include "proto/codec/attend_stream_codec.h"
#include "proto/codec/owned_slice.h"

namespace attn {
namespace {

using Request = v1::AttendStreamRequest;

// Of one chunk: long enough for a message's own cost not to show, short enough
// for the calls of a stream to take turns.
constexpr int64_t kChunkBytes = int64_t{2} << 20;
// Below this a copy is cheaper than a counted reference.
constexpr size_t kSmallPayload = 16 << 10;
// Of a timeout on the wire: a year, in milliseconds.
constexpr int64_t kLongestTimeoutMs = int64_t{365} * 24 * 3600 * 1000;

grpc::Slice ToSlice(WireChunk chunk, const SliceLoan* loan) {
  if (chunk.owned_size > 0) {
    return {chunk.owned.Release(), chunk.owned_size, &AlignedBuffer::Free};
  }
  if (chunk.borrowed_size == 0) return {chunk.bytes.data(), chunk.bytes.size()};
  if (loan == nullptr || chunk.borrowed_size < kSmallPayload) {
    return {chunk.borrowed, chunk.borrowed_size};
  }
  return loan->Lend(chunk.borrowed, chunk.borrowed_size);
}

grpc::ByteBuffer ToBuffer(std::vector<WireChunk> chunks,
                          const SliceLoan* loan) {
  std::vector<grpc::Slice> slices;
  slices.reserve(chunks.size());
  for (WireChunk& chunk : chunks) {
    slices.push_back(ToSlice(std::move(chunk), loan));
  }
  return {slices.data(), slices.size()};
}

Request OpeningOf(const StreamCallOptions& options) {
  Request opening;
  opening.set_call(options.call);
  opening.set_timeout_ms(std::clamp<int64_t>(
      absl::ToInt64Milliseconds(options.timeout), 1, kLongestTimeoutMs));
  opening.set_max_message_bytes(options.max_answer_message_bytes);
  return opening;
}

// The chunks of a tensor that was gathered lie in memory of their own.
std::shared_ptr<const void> Keep(Payload& payload) {
  if (payload.borrowed != nullptr) return nullptr;
  auto owner = std::make_shared<AlignedBuffer>(std::move(payload.owned));
  payload.borrowed = owner->data();
  return owner;
}

grpc::ByteBuffer ChunkMessage(uint64_t call, const StreamChunk& chunk,
                              const std::byte* data,
                              const std::shared_ptr<const void>& owner,
                              const SliceLoan* loan) {
  std::vector<WireChunk> chunks = EncodeStreamChunk(call, chunk, data);
  if (owner == nullptr) return ToBuffer(std::move(chunks), loan);
  std::vector<grpc::Slice> slices;
  for (WireChunk& part : chunks) {
    slices.push_back(part.borrowed_size > 0
                         ? OwnedBy(owner, part.borrowed, part.borrowed_size)
                         : ToSlice(std::move(part), loan));
  }
  return {slices.data(), slices.size()};
}

void AddChunks(const StreamCallOptions& options, DetachedPayload part,
               const SliceLoan* loan, std::vector<grpc::ByteBuffer>& messages) {
  const int64_t chunk_bytes = std::clamp<int64_t>(
      options.max_message_bytes - kStreamChunkOverhead, 1, kChunkBytes);
  const auto owner = Keep(part.payload);
  const auto size = static_cast<int64_t>(part.payload.size);
  for (int64_t offset = 0; offset < size; offset += chunk_bytes) {
    const StreamChunk chunk{.tensor = TensorSlotOf(part.field),
                            .index = part.index,
                            .offset = offset,
                            .data = {0, std::min(chunk_bytes, size - offset)}};
    messages.push_back(ChunkMessage(
        options.call, chunk, part.payload.borrowed + offset, owner, loan));
  }
}

}  // namespace

std::vector<grpc::ByteBuffer> EncodeStreamCall(const AttendMessage& message,
                                               const StreamCallOptions& options,
                                               const SliceLoan* loan) {
  const Request opening = OpeningOf(options);
  std::vector<WireChunk> whole = EncodeStreamPart(
      opening, Request::kRequestFieldNumber, EncodeAttendRequest(message));
  std::vector<grpc::ByteBuffer> messages;
  if (SizeOfChunks(whole) <= options.max_message_bytes) {
    messages.push_back(ToBuffer(std::move(whole), loan));
    return messages;
  }
  whole.clear();
  SplitMessage split = SplitAttendRequest(message);
  messages.push_back(
      ToBuffer(EncodeStreamPart(opening, Request::kHeaderFieldNumber,
                                std::move(split.header)),
               loan));
  for (DetachedPayload& part : split.payloads) {
    AddChunks(options, std::move(part), loan, messages);
  }
  return messages;
}

grpc::ByteBuffer EncodeStreamCancel(uint64_t call) {
  Request message;
  message.set_call(call);
  message.mutable_cancel();
  return Serialize(message);
}

}  // namespace attn
