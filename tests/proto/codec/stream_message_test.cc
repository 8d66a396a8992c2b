// Messages of a stream, against the generated classes.
#include "proto/codec/stream_message.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/proto/codec/codec_fixture.h"

namespace attn {
namespace {

using Request = v1::AttendStreamRequest;
using Response = v1::AttendStreamResponse;

absl::StatusOr<StreamMessage> Read(const std::string& bytes,
                                   size_t piece_size = 1024) {
  PieceStream stream(bytes, piece_size);
  return ReadStreamMessage(stream, static_cast<int64_t>(bytes.size()),
                           Request::descriptor());
}

std::string PartOf(const std::string& bytes, const WireRange& range) {
  return bytes.substr(static_cast<size_t>(range.offset),
                      static_cast<size_t>(range.size));
}

Request Opening() {
  Request message;
  message.set_call(uint64_t{1} << 40);
  message.set_timeout_ms(1500);
  message.set_max_message_bytes(1 << 20);
  *message.mutable_header() = SmallRequest();
  return message;
}

Request Chunk() {
  Request message;
  message.set_call(3);
  v1::TensorChunk& chunk = *message.mutable_chunk();
  chunk.set_tensor(v1::TENSOR_SLOT_INPUT);
  chunk.set_index(200);
  chunk.set_offset(int64_t{1} << 35);
  chunk.set_data("payload");
  return message;
}

TEST(StreamMessage, IsReadWhereverItsBytesAreSplit) {
  for (const size_t piece : {1, 2, 3, 64, 4096}) {
    SCOPED_TRACE(piece);
    std::string bytes = Opening().SerializeAsString();
    const auto opening = Read(bytes, piece);
    ASSERT_TRUE(opening.ok()) << opening.status();
    EXPECT_EQ(opening->call, uint64_t{1} << 40);
    EXPECT_EQ(opening->timeout_ms, 1500);
    EXPECT_EQ(opening->max_message_bytes, 1 << 20);
    EXPECT_EQ(opening->part, Request::kHeaderFieldNumber);
    EXPECT_EQ(PartOf(bytes, opening->body), SmallRequest().SerializeAsString());
    bytes = Chunk().SerializeAsString();
    const auto chunk = Read(bytes, piece);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->call, 3);
    EXPECT_EQ(chunk->part, Request::kChunkFieldNumber);
    EXPECT_EQ(chunk->chunk.tensor, v1::TENSOR_SLOT_INPUT);
    EXPECT_EQ(chunk->chunk.index, 200);
    EXPECT_EQ(chunk->chunk.offset, int64_t{1} << 35);
    EXPECT_EQ(PartOf(bytes, chunk->chunk.data), "payload");
  }
}

// Field by field in reverse, as protobuf allows.
TEST(StreamMessage, TakesItsFieldsInAnyOrder) {
  Request numbers;
  numbers.set_call(9);
  Request part;
  part.mutable_cancel();
  Request timeout;
  timeout.set_timeout_ms(7);
  const auto message =
      Read(part.SerializeAsString() + timeout.SerializeAsString() +
           numbers.SerializeAsString());
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->call, 9);
  EXPECT_EQ(message->timeout_ms, 7);
  EXPECT_EQ(message->part, Request::kCancelFieldNumber);
}

TEST(StreamMessage, PassesOverFieldsThatItDoesNotKnow) {
  // Field 99 is a varint; inside the chunk, too.
  const std::string unknown = "\x98\x06\x05";
  std::string inner = Chunk().chunk().SerializeAsString() + unknown;
  std::string bytes = unknown;
  Request number;
  number.set_call(3);
  bytes += number.SerializeAsString();
  // Field 18, length-delimited.
  bytes += std::string("\x92\x01") + static_cast<char>(inner.size()) + inner;
  const auto message = Read(bytes, 1);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(PartOf(bytes, message->chunk.data), "payload");
}

TEST(StreamMessage, HasOnePart) {
  const std::string twice =
      Opening().SerializeAsString() + Chunk().SerializeAsString();
  EXPECT_EQ(FieldOf(Read(twice).status()), "chunk");
  Request none;
  none.set_call(1);
  const auto message = Read(none.SerializeAsString());
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->part, 0);
  EXPECT_TRUE(Read("").ok());
}

// No prefix of a message is taken for a message with that part: lengths are
// held against the bytes that are there.
TEST(StreamMessage, ThatIsCutShortIsMalformed) {
  for (const Request& whole : {Opening(), Chunk()}) {
    const std::string bytes = whole.SerializeAsString();
    for (size_t size = 0; size < bytes.size(); ++size) {
      const std::string cut = bytes.substr(0, size);
      const auto message = Read(cut, 3);
      Request parsed;
      EXPECT_EQ(message.ok(), parsed.ParseFromString(cut)) << size;
      if (message.ok()) {
        EXPECT_EQ(message->part, 0) << size;
      }
    }
  }
}

TEST(StreamMessage, IsWrittenAsTheGeneratedCodeWouldWriteIt) {
  Request head = Opening();
  head.clear_part();
  WireChunk body;
  body.bytes = SmallRequest().SerializeAsString();
  std::vector<WireChunk> chunks;
  chunks.push_back(std::move(body));
  EXPECT_EQ(Join(EncodeStreamPart(head, Request::kHeaderFieldNumber,
                                  std::move(chunks))),
            Opening().SerializeAsString());
}

TEST(StreamMessage, AChunkIsWrittenAsEitherSideWouldWriteIt) {
  const std::string data = "payload";
  const auto* bytes = reinterpret_cast<const std::byte*>(data.data());
  const StreamChunk input{.tensor = v1::TENSOR_SLOT_INPUT,
                          .index = 200,
                          .offset = int64_t{1} << 35,
                          .data = {0, 7}};
  const auto chunks = EncodeStreamChunk(3, input, bytes);
  EXPECT_EQ(Join(chunks), Chunk().SerializeAsString());
  // The data is not copied.
  EXPECT_EQ(chunks.back().borrowed, bytes);

  Response answer;
  answer.set_call(3);
  answer.mutable_chunk()->set_tensor(v1::OUTPUT_HEAD_OUTPUT);
  answer.mutable_chunk()->set_offset(4);
  answer.mutable_chunk()->set_data(data);
  const StreamChunk output{
      .tensor = v1::OUTPUT_HEAD_OUTPUT, .offset = 4, .data = {0, 7}};
  EXPECT_EQ(Join(EncodeStreamChunk(3, output, bytes)),
            answer.SerializeAsString());
}

TEST(StreamMessage, TheOverheadOfAChunkIsBounded) {
  const std::byte byte{};
  const StreamChunk largest{.tensor = v1::TENSOR_SLOT_QKV,
                            .index = ~uint32_t{0},
                            .offset = std::numeric_limits<int64_t>::max(),
                            .data = {0, 1}};
  const auto chunks = EncodeStreamChunk(~uint64_t{0}, largest, &byte);
  // Lengths of a data of 2^31 bytes take four bytes more, twice.
  EXPECT_LE(SizeOfChunks(chunks) - 1 + 8, kStreamChunkOverhead);
}

}  // namespace
}  // namespace attn
