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

void ChunkWriter::AddTensor(int field, const v1::Tensor& metadata,
                            Payload payload) {
  static constexpr int kData = v1::Tensor::kDataFieldNumber;
  uint64_t length = metadata.ByteSizeLong();
  if (payload.size > 0) {
    length += VarintSize(DelimitedTag(kData)) + VarintSize(payload.size) +
              payload.size;
  }
  AppendDelimiter(field, length, pending_);
  metadata.AppendPartialToString(&pending_);
  // proto3 does not write what is empty.
  if (payload.size == 0) return;
  AppendDelimiter(kData, payload.size, pending_);
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

std::vector<WireChunk> ChunkWriter::Finish() {
  Flush();
  return std::exchange(chunks_, {});
}

void ChunkWriter::Flush() {
  if (pending_.empty()) return;
  chunks_.emplace_back().bytes = std::exchange(pending_, {});
}

}  // namespace attn
