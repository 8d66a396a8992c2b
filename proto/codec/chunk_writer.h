// Builds the chunks of an encoded message.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/aligned_buffer.h"
#include "google/protobuf/message_lite.h"
#include "proto/codec/attend_codec.h"

namespace attn {

// Appends `value` as a protobuf varint.
void AppendVarint(uint64_t value, std::string& bytes);
// Appends the tag of a length-delimited field, and the length.
void AppendDelimiter(int field, uint64_t length, std::string& bytes);

// A payload and where it lies: `owned`, or else `borrowed`.
struct Payload {
  AlignedBuffer owned;
  const std::byte* borrowed = nullptr;
  size_t size = 0;
};

// Small bytes gather in one chunk until a payload follows. No chunk is empty.
// Thread-compatible.
class ChunkWriter {
 public:
  // All fields of `message`.
  void AddMessage(const google::protobuf::MessageLite& message);
  // A Tensor as field `field` of the message; `metadata` is all but its data.
  void AddTensor(int field, const v1::Tensor& metadata, Payload payload);
  // The chunks in order; the writer is empty then.
  std::vector<WireChunk> Finish();

 private:
  void Flush();

  std::string pending_;
  std::vector<WireChunk> chunks_;
};

}  // namespace attn
