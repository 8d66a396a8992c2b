// Between gRPC's slices and the codec's chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/codec/attend_codec.h"

namespace attn {

// Owned chunks are handed over: their memory is freed when the transport has
// sent them. No payload is copied.
grpc::ByteBuffer ToByteBuffer(std::vector<WireChunk> chunks);

// The same, where the borrowed chunks lie in memory that `owner` keeps: it is
// let go when the transport has sent them.
grpc::ByteBuffer ToByteBuffer(std::vector<WireChunk> chunks,
                              const std::shared_ptr<const void>& owner);

grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message);

// False: malformed.
bool ParseMessage(grpc::ByteBuffer& buffer,
                  google::protobuf::MessageLite& message);

}  // namespace attn
