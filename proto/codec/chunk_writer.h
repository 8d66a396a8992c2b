// Builds the chunks of an encoded message.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/aligned_buffer.h"
#include "google/protobuf/message_lite.h"
#include "proto/codec/schema.h"
#include "proto/codec/wire_chunk.h"

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

// The payload of a tensor that was written without it. `index`: which of the
// tensors of that field.
struct DetachedPayload {
  int field = 0;
  uint32_t index = 0;
  Payload payload;
};

// Small bytes gather in one chunk until a payload follows. No chunk is empty.
// Thread-compatible.
class ChunkWriter {
 public:
  // From now on AddTensor() writes no data and keeps it for TakeDetached().
  void DetachPayloads() { detaching_ = true; }
  std::vector<DetachedPayload> TakeDetached() { return std::move(detached_); }

  // All fields of `message`.
  void AddMessage(const google::protobuf::MessageLite& message);
  // A Tensor as field `field` of the message; `metadata` is all but its data.
  void AddTensor(int field, const v1::Tensor& metadata, Payload payload);
  // A field of bytes; written also if it has none, as an element of a repeated
  // field is.
  void AddBytes(int field, Payload payload);
  // A message as field `field`: `head`, and a Tensor as its field
  // `tensor_field`, which must be beyond those of `head`.
  void AddNested(int field, const google::protobuf::MessageLite& head,
                 int tensor_field, const v1::Tensor& metadata, Payload payload);
  // The chunks in order; the writer is empty then.
  std::vector<WireChunk> Finish();

 private:
  void Flush();
  // A chunk of its own; of one byte or more.
  void Append(Payload payload);

  void Detach(int field, Payload payload);

  std::string pending_;
  std::vector<WireChunk> chunks_;
  bool detaching_ = false;
  std::vector<DetachedPayload> detached_;
  // Tensors of the last field, of which those before are complete.
  int last_field_ = 0;
  uint32_t next_index_ = 0;
};

}  // namespace attn
