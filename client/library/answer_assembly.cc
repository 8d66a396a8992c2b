#include "client/library/answer_assembly.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace attn {
namespace {

using google::protobuf::io::CodedInputStream;
using Response = v1::AttendStreamResponse;

absl::Status Unreadable() {
  return absl::InternalError("an answer on the stream cannot be read");
}

// Calls `read` with a stream that is at the body of the part.
template <typename ReadBody>
auto WithBody(grpc::ByteBuffer& message, const WireRange& body,
              const ReadBody& read)
    -> decltype(read(std::declval<grpc::ProtoBufferReader&>())) {
  grpc::ProtoBufferReader reader(&message);
  if (!reader.status().ok() ||
      (body.offset > 0 && !reader.Skip(static_cast<int>(body.offset)))) {
    return Unreadable();
  }
  return read(reader);
}

absl::Status ReadStatus(const WireRange& body, grpc::ByteBuffer& message) {
  return WithBody(message, body, [&body](grpc::ProtoBufferReader& reader) {
    CodedInputStream input(&reader);
    std::string bytes;
    if (!input.ReadString(&bytes, static_cast<int>(body.size))) {
      return Unreadable();
    }
    return DecodeCallStatus({bytes.data(), bytes.size()});
  });
}

}  // namespace

absl::StatusOr<StreamMessage> ReadAnswerMessage(grpc::ByteBuffer& message) {
  if (message.Length() == 0) return Unreadable();
  const auto size = static_cast<int64_t>(message.Length());
  return WithBody(message, {}, [size](grpc::ProtoBufferReader& reader) {
    return ReadStreamMessage(reader, size, Response::descriptor());
  });
}

absl::Status AnswerAssembly::Take(const StreamMessage& part,
                                  grpc::ByteBuffer& message,
                                  int64_t max_bytes) {
  absl::Status status;
  switch (part.part) {
    case Response::kStatusFieldNumber:
      return ReadStatus(part.body, message);
    case Response::kResponseFieldNumber:
    case Response::kHeaderFieldNumber:
      status = TakeResponse(part.body, message, max_bytes);
      break;
    case Response::kChunkFieldNumber:
      status = TakeChunk(part.chunk, message);
      break;
    default:
      return Unreadable();
  }
  return status.ok() && done() ? assembly_.CheckValues() : status;
}

// A whole response is a header whose tensors have all their data.
absl::Status AnswerAssembly::TakeResponse(const WireRange& body,
                                          grpc::ByteBuffer& message,
                                          int64_t max_bytes) {
  if (has_header_) return Unreadable();
  has_header_ = true;
  const BookBytes book = [max_bytes](int64_t bytes) -> absl::Status {
    if (bytes <= max_bytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "a response of ", bytes, " bytes is larger than ", max_bytes));
  };
  auto result = WithBody(message, body, [&](grpc::ProtoBufferReader& reader) {
    return DecodeAttendResponseHeader(reader, body.size, book, assembly_);
  });
  if (!result.ok()) return result.status();
  result_ = *std::move(result);
  return absl::OkStatus();
}

absl::Status AnswerAssembly::TakeChunk(const StreamChunk& chunk,
                                       grpc::ByteBuffer& message) {
  const auto field = ResponseFieldOf(chunk);
  if (!field.ok()) return field.status();
  const auto target = assembly_.Next(*field, 0, chunk.offset, chunk.data.size);
  if (!target.ok()) return target.status();
  return WithBody(message, chunk.data, [&](grpc::ProtoBufferReader& reader) {
    CodedInputStream input(&reader);
    const bool read = input.ReadRaw(*target, static_cast<int>(chunk.data.size));
    return read ? absl::OkStatus() : Unreadable();
  });
}

}  // namespace attn
