#include "proto/codec/stream_message.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "google/protobuf/io/coded_stream.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/field_reader.h"
#include "proto/codec/schema.h"
#include "proto/codec/wire_message.h"

namespace attn {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using Request = v1::AttendStreamRequest;
using Response = v1::AttendStreamResponse;

constexpr bool Alike(int request, int response) { return request == response; }

static_assert(Alike(Request::kCallFieldNumber, Response::kCallFieldNumber));
static_assert(Alike(Request::kChunkFieldNumber, Response::kChunkFieldNumber));
static_assert(Alike(v1::TensorChunk::kTensorFieldNumber,
                    v1::OutputChunk::kTensorFieldNumber));
static_assert(Alike(v1::TensorChunk::kOffsetFieldNumber,
                    v1::OutputChunk::kOffsetFieldNumber));
static_assert(Alike(v1::TensorChunk::kDataFieldNumber,
                    v1::OutputChunk::kDataFieldNumber));

absl::Status Malformed(const char* field, const CodedInputStream& input) {
  return FieldError(
      field,
      absl::StrCat("malformed protobuf near byte ", input.CurrentPosition()),
      "a well-formed message");
}

// Reads one message.
class Reader {
 public:
  Reader(CodedInputStream& input, const Descriptor* type)
      : input_(input), type_(type) {}

  absl::StatusOr<StreamMessage> Read();

 private:
  absl::Status ReadPart(const FieldDescriptor& field, FieldReader& fields);
  absl::Status ReadChunk(int length);
  // Remembers where a delimited value lies, and skips it.
  bool TakeRange(FieldReader& fields, WireRange& range);
  // A varint of the message that is no part.
  bool TakeNumber(FieldReader& fields);

  CodedInputStream& input_;
  const Descriptor* type_;
  StreamMessage message_;
};

absl::StatusOr<StreamMessage> Reader::Read() {
  FieldReader fields(input_);
  while (fields.Next()) {
    const FieldDescriptor* field = type_->FindFieldByNumber(fields.Number());
    if (field == nullptr) {
      fields.Skip();
    } else if (field->containing_oneof() == nullptr) {
      TakeNumber(fields);
    } else if (!fields.IsDelimited()) {
      // As the generated parser does with a field of another wire type.
      fields.Skip();
    } else if (absl::Status status = ReadPart(*field, fields); !status.ok()) {
      return status;
    }
  }
  if (!fields.ok()) return Malformed(type_->name().c_str(), input_);
  return message_;
}

bool Reader::TakeNumber(FieldReader& fields) {
  uint64_t value = 0;
  const int number = fields.Number();
  if (!fields.TakeVarint(&value)) return false;
  if (number == Request::kCallFieldNumber) {
    message_.call = value;
  } else if (number == Request::kTimeoutMsFieldNumber) {
    message_.timeout_ms = static_cast<int64_t>(value);
  } else {
    message_.max_message_bytes = static_cast<int64_t>(value);
  }
  return true;
}

absl::Status Reader::ReadPart(const FieldDescriptor& field,
                              FieldReader& fields) {
  if (message_.part != 0) {
    return FieldError(field.name(), "a second part",
                      "one part in a message of the stream");
  }
  message_.part = field.number();
  int length = 0;
  if (!fields.TakeLength(&length)) {
    return Malformed(field.name().c_str(), input_);
  }
  message_.body = {input_.CurrentPosition(), length};
  if (field.number() == Request::kChunkFieldNumber) return ReadChunk(length);
  if (input_.Skip(length)) return absl::OkStatus();
  return Malformed(field.name().c_str(), input_);
}

bool Reader::TakeRange(FieldReader& fields, WireRange& range) {
  int length = 0;
  if (!fields.TakeLength(&length)) return false;
  range = {input_.CurrentPosition(), length};
  return input_.Skip(length);
}

absl::Status Reader::ReadChunk(int length) {
  using Numbers = v1::TensorChunk;
  StreamChunk& chunk = message_.chunk;
  const CodedInputStream::Limit limit = input_.PushLimit(length);
  FieldReader fields(input_);
  bool ok = true;
  while (ok && fields.Next()) {
    uint64_t value = 0;
    switch (fields.Number()) {
      case Numbers::kTensorFieldNumber:
        ok = fields.TakeVarint(&value);
        // As the generated parser cuts an enum.
        chunk.tensor = static_cast<int>(value);
        break;
      case Numbers::kIndexFieldNumber:
        ok = fields.TakeVarint(&value);
        chunk.index = static_cast<uint32_t>(value);
        break;
      case Numbers::kOffsetFieldNumber:
        ok = fields.TakeVarint(&value);
        chunk.offset = static_cast<int64_t>(value);
        break;
      case Numbers::kDataFieldNumber:
        ok = fields.IsDelimited() ? TakeRange(fields, chunk.data)
                                  : fields.Skip();
        break;
      default:
        ok = fields.Skip();
    }
  }
  if (!ok || !fields.ok()) return Malformed("chunk", input_);
  input_.PopLimit(limit);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StreamMessage> ReadStreamMessage(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    const Descriptor* type) {
  absl::Status fits = CheckWireSize(type->name(), size);
  if (!fits.ok()) return fits;
  CodedInputStream input(&stream);
  input.PushLimit(static_cast<int>(size));
  return Reader(input, type).Read();
}

std::vector<WireChunk> EncodeStreamPart(
    const google::protobuf::MessageLite& head, int part,
    std::vector<WireChunk> body) {
  WireChunk first;
  head.AppendPartialToString(&first.bytes);
  AppendDelimiter(part, static_cast<uint64_t>(SizeOfChunks(body)), first.bytes);
  std::vector<WireChunk> chunks;
  chunks.reserve(body.size() + 1);
  chunks.push_back(std::move(first));
  for (WireChunk& chunk : body) chunks.push_back(std::move(chunk));
  return chunks;
}

std::vector<WireChunk> EncodeStreamChunk(uint64_t call,
                                         const StreamChunk& chunk,
                                         const std::byte* data) {
  const auto size = static_cast<size_t>(chunk.data.size);
  v1::TensorChunk head;
  // Any value of either enum; the classes keep what they do not know.
  head.set_tensor(static_cast<v1::TensorSlot>(chunk.tensor));
  head.set_index(chunk.index);
  head.set_offset(chunk.offset);
  WireChunk inner;
  head.AppendPartialToString(&inner.bytes);
  AppendDelimiter(v1::TensorChunk::kDataFieldNumber, size, inner.bytes);
  std::vector<WireChunk> body;
  body.push_back(std::move(inner));
  WireChunk& payload = body.emplace_back();
  payload.borrowed = data;
  payload.borrowed_size = size;
  Request message;
  message.set_call(call);
  return EncodeStreamPart(message, Request::kChunkFieldNumber, std::move(body));
}

}  // namespace attn
