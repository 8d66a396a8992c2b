#include "server/rpc/byte_buffer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

std::vector<grpc::Slice> Slices(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  return slices;
}

TEST(ByteBuffer, AnOwnedChunkIsHandedOverWithoutACopy) {
  constexpr size_t kSize = 100000;
  WireChunk chunk;
  chunk.owned = AlignedBuffer(kSize);
  chunk.owned_size = kSize;
  const std::byte* memory = chunk.owned.data();
  std::vector<WireChunk> chunks;
  chunks.push_back(std::move(chunk));
  const grpc::ByteBuffer buffer = ToByteBuffer(std::move(chunks));
  const std::vector<grpc::Slice> slices = Slices(buffer);
  ASSERT_EQ(slices.size(), 1);
  EXPECT_EQ(static_cast<const void*>(slices[0].begin()), memory);
}

TEST(ByteBuffer, ChunksOfEveryKindKeepTheirOrder) {
  const std::string borrowed = "borrowed";
  std::vector<WireChunk> chunks(3);
  chunks[0].bytes = "head";
  chunks[1].owned = AlignedBuffer(2);
  chunks[1].owned_size = 2;
  std::fill_n(chunks[1].owned.data(), 2, std::byte{'x'});
  chunks[2].borrowed = reinterpret_cast<const std::byte*>(borrowed.data());
  chunks[2].borrowed_size = borrowed.size();
  std::string joined;
  for (const grpc::Slice& slice : Slices(ToByteBuffer(std::move(chunks)))) {
    joined.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  EXPECT_EQ(joined, "headxxborrowed");
}

TEST(ByteBuffer, AMessageSurvivesTheWayThereAndBack) {
  ::attention::v1::Limits sent;
  sent.set_max_queue_size(77);
  grpc::ByteBuffer buffer = ToByteBuffer(sent);
  ::attention::v1::Limits received;
  ASSERT_TRUE(ParseMessage(buffer, received));
  EXPECT_EQ(received.max_queue_size(), 77);
}

TEST(ByteBuffer, JunkIsNoMessage) {
  const grpc::Slice slice(std::string(9, '\xff'));
  grpc::ByteBuffer buffer(&slice, 1);
  ::attention::v1::Limits received;
  EXPECT_FALSE(ParseMessage(buffer, received));
}

}  // namespace
}  // namespace attn
