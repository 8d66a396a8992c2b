// Responses with large tensors: a header that the generated code reads and
// writes, and the tensors (fields >= 16) without a copy.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/aligned_buffer.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "google/protobuf/message.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/wire_chunk.h"
#include "proto/codec/wire_message.h"

namespace attn {

// A tensor of a response. `field` is its number in the message. `data` is
// row-major in `shape`, which is the wire's: [B, S, H, D] if `bshd`.
struct ResponseTensor {
  int field = 0;
  DType dtype = DType::kF32;
  Shape shape;
  bool bshd = false;
  AlignedBuffer data;
};

// `header` holds all but the large tensors, which follow it and are given away.
// Those of one field keep their order. Byte for byte what the generated code
// would write.
std::vector<WireChunk> EncodeResponse(const google::protobuf::Message& header,
                                      std::vector<ResponseTensor> tensors);

// The same into a writer.
void WriteResponse(const google::protobuf::Message& header,
                   std::vector<ResponseTensor> tensors, ChunkWriter& writer);

// Sees the tensors of a message before they are made of it.
using TensorsHook = std::function<absl::Status(WireMessage& message)>;

// Reads `size` bytes as a message of `header`'s type: the large tensors are the
// result, all else is in `header`. INVALID_ARGUMENT that names the field if it
// cannot be understood.
absl::StatusOr<std::vector<ResponseTensor>> ReadResponse(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    google::protobuf::Message& header, const TensorsHook& hook = nullptr);

// A decoded response: `header` without the large tensors.
template <typename Header>
struct WireResult {
  Header header;
  std::vector<ResponseTensor> tensors;

  // The first of that field; null if the response does not have it.
  const ResponseTensor* Find(int field) const {
    for (const ResponseTensor& tensor : tensors) {
      if (tensor.field == field) return &tensor;
    }
    return nullptr;
  }
};

// The same as one value.
template <typename Header>
absl::StatusOr<WireResult<Header>> DecodeResult(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size) {
  WireResult<Header> result;
  auto tensors = ReadResponse(stream, size, result.header);
  if (!tensors.ok()) return tensors.status();
  result.tensors = *std::move(tensors);
  return result;
}

}  // namespace attn
