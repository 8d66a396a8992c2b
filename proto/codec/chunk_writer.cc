#include "proto/codec/chunk_writer.h"

#include <cstdint>
#include <iterator>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace attn {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

// ceil(64 / 7)
constexpr size_t kMaxVarintBytes = 10;

uint64_t VarintSize(uint64_t value) {
  return CodedOutputStream::VarintSize64(value);
}

uint32_t DelimitedTag(int field) {
  return WireFormatLite::MakeTag(field,
                                 WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// Bytes of a length-delimited field, tag and length with it.
uint64_t DelimitedSize(int field, uint64_t length) {
  return VarintSize(DelimitedTag(field)) + VarintSize(length) + length;
}

// Bytes of a Tensor. proto3 does not write what is empty.
uint64_t TensorSize(const v1::Tensor& metadata, const Payload& payload) {
  const uint64_t length = metadata.ByteSizeLong();
  if (payload.size == 0) return length;
  return length + DelimitedSize(v1::Tensor::kDataFieldNumber, payload.size);
}

}  // namespace

void AppendVarint(uint64_t value, std::string& bytes) {
  uint8_t buffer[kMaxVarintBytes];
  const uint8_t* end = CodedOutputStream::WriteVarint64ToArray(value, buffer);
  bytes.append(std::begin(buffer), std::begin(buffer) + (end - buffer));
}

void AppendDelimiter(int field, uint64_t length, std::string& bytes) {
  AppendVarint(DelimitedTag(field), bytes);
  AppendVarint(length, bytes);
}

void ChunkWriter::AddMessage(const google::protobuf::MessageLite& message) {
  message.AppendPartialToString(&pending_);
}

void ChunkWriter::Detach(int field, Payload payload) {
  if (field != last_field_) next_index_ = 0;
  last_field_ = field;
  const uint32_t index = next_index_++;
  if (payload.size == 0) return;
  detached_.push_back({field, index, std::move(payload)});
}

void ChunkWriter::AddTensor(int field, const v1::Tensor& metadata,
                            Payload payload) {
  if (detaching_) {
    Detach(field, std::move(payload));
    payload = Payload();
  }
  AppendDelimiter(field, TensorSize(metadata, payload), pending_);
  metadata.AppendPartialToString(&pending_);
  if (payload.size == 0) return;
  AppendDelimiter(v1::Tensor::kDataFieldNumber, payload.size, pending_);
  Append(std::move(payload));
}

void ChunkWriter::AddBytes(int field, Payload payload) {
  AppendDelimiter(field, payload.size, pending_);
  if (payload.size > 0) Append(std::move(payload));
}

void ChunkWriter::Append(Payload payload) {
  Flush();
  WireChunk& chunk = chunks_.emplace_back();
  if (payload.borrowed != nullptr) {
    chunk.borrowed = payload.borrowed;
    chunk.borrowed_size = payload.size;
  } else {
    chunk.owned = std::move(payload.owned);
    chunk.owned_size = payload.size;
  }
}

void ChunkWriter::AddNested(int field,
                            const google::protobuf::MessageLite& head,
                            int tensor_field, const v1::Tensor& metadata,
                            Payload payload) {
  const uint64_t tensor =
      DelimitedSize(tensor_field, TensorSize(metadata, payload));
  AppendDelimiter(field, head.ByteSizeLong() + tensor, pending_);
  head.AppendPartialToString(&pending_);
  AddTensor(tensor_field, metadata, std::move(payload));
}

std::vector<WireChunk> ChunkWriter::Finish() {
  Flush();
  return std::exchange(chunks_, {});
}

void ChunkWriter::Flush() {
  if (pending_.empty()) return;
  chunks_.emplace_back().bytes = std::exchange(pending_, {});
}

}  // namespace attn
