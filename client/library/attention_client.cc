#include "client/library/attention_client.h"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/library/health_message.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

std::string Flatten(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string flat;
  if (!bytes.Dump(&slices).ok()) return flat;
  for (const grpc::Slice& slice : slices) {
    flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return flat;
}

template <typename Response>
absl::StatusOr<Response> Parse(const absl::StatusOr<grpc::ByteBuffer>& bytes) {
  if (!bytes.ok()) return bytes.status();
  Response response;
  if (!response.ParseFromString(Flatten(*bytes))) {
    return absl::InternalError("the response is malformed");
  }
  return response;
}

}  // namespace

absl::StatusOr<AttentionClient> AttentionClient::Connect(
    const ClientOptions& options) {
  if (options.deadline <= absl::ZeroDuration()) {
    return FieldError("deadline", absl::FormatDuration(options.deadline),
                      "> 0");
  }
  auto channel =
      RawChannel::Create({.address = options.address,
                          .max_response_bytes = options.max_response_bytes,
                          .keepalive = options.keepalive});
  if (!channel.ok()) return channel.status();
  return AttentionClient(*std::move(channel), options.deadline);
}

RawCallOptions AttentionClient::ToRaw(const CallOptions& options) const {
  return {.deadline = options.deadline > absl::ZeroDuration() ? options.deadline
                                                              : deadline_};
}

absl::StatusOr<AttendResult> AttentionClient::Attend(
    const AttendMessage& message, const CallOptions& options) const {
  std::atomic<int> borrowed = 0;
  RawCallOptions raw = ToRaw(options);
  raw.borrowed_slices = &borrowed;
  auto response =
      channel_.Call(kAttendMethod, BorrowRequest(message, borrowed), raw);
  if (!response.ok()) return response.status();
  return DecodeResponse(*response);
}

void AttentionClient::AttendAsync(const AttendMessage& message,
                                  const CallOptions& options,
                                  AttendCallback done) const {
  channel_.CallAsync(kAttendMethod, EncodeRequest(message), ToRaw(options),
                     [done = std::move(done)](const absl::Status& status,
                                              const grpc::ByteBuffer& bytes) {
                       if (status.ok()) {
                         done(DecodeResponse(bytes));
                       } else {
                         done(status);
                       }
                     });
}

absl::StatusOr<v1::PlanResponse> AttentionClient::Plan(
    const AttendMessage& message, const CallOptions& options) const {
  auto request = Serialize(EncodePlanRequest(message));
  return Parse<v1::PlanResponse>(
      channel_.Call(kPlanMethod, std::move(request), ToRaw(options)));
}

absl::StatusOr<v1::GetServerInfoResponse> AttentionClient::GetServerInfo(
    const CallOptions& options) const {
  auto request = Serialize(v1::GetServerInfoRequest());
  return Parse<v1::GetServerInfoResponse>(
      channel_.Call(kGetServerInfoMethod, std::move(request), ToRaw(options)));
}

absl::Status AttentionClient::Health(const std::string& service,
                                     const CallOptions& options) const {
  grpc::Slice slice(EncodeHealthRequest(service));
  auto response = channel_.Call(kHealthCheckMethod, grpc::ByteBuffer(&slice, 1),
                                ToRaw(options));
  if (!response.ok()) return response.status();
  const auto state = DecodeHealthResponse(Flatten(*response));
  if (!state.ok()) return state.status();
  if (*state == HealthState::kServing) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the server at ", address(), " says ", Name(*state)));
}

}  // namespace attn
