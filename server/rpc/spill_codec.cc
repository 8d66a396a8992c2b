#include "server/rpc/spill_codec.h"

#include <algorithm>
#include <string>
#include <vector>

#include "attention/v1/session.pb.h"
#include "engine/core/field_error.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/rpc/session_settings.h"

namespace attn {
namespace {

absl::StatusOr<std::shared_ptr<const SessionSettings>> ReadOpening(
    const std::string& opening, Engine& engine, absl::Duration most_idle) {
  v1::OpenSessionRequest request;
  if (!request.ParseFromString(opening)) {
    return FieldError("OpenSessionRequest", "malformed protobuf",
                      "what the session was opened with");
  }
  request.set_idle_timeout_ms(std::min(request.idle_timeout_ms(),
                                       absl::ToInt64Milliseconds(most_idle)));
  auto settings = MakeSessionSettings(request, engine, most_idle);
  if (!settings.ok()) return settings.status();
  (*settings)->opening = opening;
  return *std::move(settings);
}

std::string BytesOfAnswer(const std::any& message) {
  const auto* const buffer = std::any_cast<grpc::ByteBuffer>(&message);
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (buffer == nullptr || !buffer->Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer->Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

std::any AnswerOfBytes(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

SpillCodec MakeSpillCodec(Engine& engine, absl::Duration most_idle) {
  return {.settings =
              [&engine, most_idle](const std::string& opening) {
                return ReadOpening(opening, engine, most_idle);
              },
          .answer_bytes = BytesOfAnswer,
          .answer = AnswerOfBytes};
}

}  // namespace attn
