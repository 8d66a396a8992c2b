#include "server/rpc/byte_buffer.h"

#include <cstddef>
#include <string>

#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"
#include "proto/codec/owned_slice.h"

namespace attn {
namespace {

// Below this size a slice of its own costs more than the copy.
constexpr size_t kCopyBelow = 512;

grpc::Slice ToSlice(WireChunk chunk) {
  if (chunk.borrowed != nullptr) {
    return grpc::Slice(chunk.borrowed, chunk.borrowed_size,
                       grpc::Slice::STATIC_SLICE);
  }
  if (!chunk.bytes.empty()) return grpc::Slice(chunk.bytes);
  if (chunk.owned_size < kCopyBelow) {
    return grpc::Slice(chunk.owned.data(), chunk.owned_size);
  }
  return grpc::Slice(chunk.owned.Release(), chunk.owned_size,
                     &AlignedBuffer::Free);
}

}  // namespace

grpc::ByteBuffer ToByteBuffer(std::vector<WireChunk> chunks) {
  std::vector<grpc::Slice> slices;
  slices.reserve(chunks.size());
  for (WireChunk& chunk : chunks) slices.push_back(ToSlice(std::move(chunk)));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::ByteBuffer ToByteBuffer(std::vector<WireChunk> chunks,
                              const std::shared_ptr<const void>& owner) {
  std::vector<grpc::Slice> slices;
  slices.reserve(chunks.size());
  for (WireChunk& chunk : chunks) {
    slices.push_back(chunk.borrowed != nullptr
                         ? OwnedBy(owner, chunk.borrowed, chunk.borrowed_size)
                         : ToSlice(std::move(chunk)));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

bool ParseMessage(grpc::ByteBuffer& buffer,
                  google::protobuf::MessageLite& message) {
  if (buffer.Length() == 0) return true;
  grpc::ProtoBufferReader reader(&buffer);
  return reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
}

}  // namespace attn
