#include "client/library/attention_client.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/library/health_message.h"
#include "engine/core/field_error.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace attn {
namespace {

// A request of this size takes longer to send than asking for the server's
// limits first.
constexpr int64_t kAskAboveBytes = int64_t{16} << 20;

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

// A callback that gives `done` what `decode` makes of a response.
template <typename Result>
RawCallback Decoding(
    absl::StatusOr<Result> (*decode)(const grpc::ByteBuffer& response),
    std::function<void(absl::StatusOr<Result>)> done) {
  return [decode, done = std::move(done)](const absl::Status& status,
                                          const grpc::ByteBuffer& bytes) {
    if (status.ok()) {
      done(decode(bytes));
    } else {
      done(status);
    }
  };
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
                          .keepalive = options.keepalive,
                          .security = options.security,
                          .retry = options.retry});
  if (!channel.ok()) return channel.status();
  return AttentionClient(*std::move(channel), options);
}

// Every call of this service but a stream may be made twice: it computes, and
// keeps nothing.
RawCallOptions AttentionClient::ToRaw(const CallOptions& options,
                                      Repeat repeat) const {
  return {.deadline = options.deadline > absl::ZeroDuration() ? options.deadline
                                                              : deadline_,
          .repeat = repeat};
}

absl::StatusOr<grpc::ByteBuffer> AttentionClient::CallBorrowing(
    const char* method, std::vector<WireChunk> chunks,
    const CallOptions& options) const {
  std::atomic<int> borrowed = 0;
  RawCallOptions raw = ToRaw(options);
  raw.borrowed_slices = &borrowed;
  return channel_.Call(method, BorrowChunks(std::move(chunks), borrowed), raw);
}

absl::StatusOr<AttendResult> AttentionClient::Attend(
    const AttendMessage& message, const CallOptions& options) const {
  std::vector<WireChunk> chunks = EncodeAttendRequest(message);
  const int64_t size = SizeOfChunks(chunks);
  if (size < kAskAboveBytes) return AttendUnary(std::move(chunks), options);
  const absl::Time end = absl::Now() + ToRaw(options).deadline;
  const auto limits = LimitsOf(options);
  if (!limits.ok()) return limits.status();
  // What is left of it, so that all of the call has the one deadline.
  const CallOptions rest{.deadline =
                             std::max(end - absl::Now(), absl::Nanoseconds(1))};
  absl::StatusOr<AttendResult> result;
  if (size > limits->max_message_bytes()) {
    chunks.clear();
    AttendStream stream(channel_, StreamOptionsFor(*limits, rest));
    result = stream.Attend(message);
  } else {
    result = AttendUnary(std::move(chunks), rest);
  }
  // Perhaps another server answers there now.
  if (!result.ok()) limits_->Forget();
  return result;
}

absl::StatusOr<AttendResult> AttentionClient::AttendUnary(
    std::vector<WireChunk> chunks, const CallOptions& options) const {
  auto response = CallBorrowing(kAttendMethod, std::move(chunks), options);
  if (!response.ok()) return response.status();
  return DecodeResponse(*response);
}

absl::StatusOr<v1::Limits> AttentionClient::LimitsOf(
    const CallOptions& options) const {
  if (auto known = limits_->Get(); known.has_value()) return *std::move(known);
  const auto info = GetServerInfo(options);
  if (!info.ok()) return info.status();
  limits_->Set(info->limits());
  return info->limits();
}

absl::StatusOr<std::unique_ptr<AttendStream>> AttentionClient::OpenStream(
    const CallOptions& options) const {
  const auto info = GetServerInfo(options);
  if (!info.ok()) return info.status();
  return std::make_unique<AttendStream>(
      channel_, StreamOptionsFor(info->limits(), options));
}

StreamOptions AttentionClient::StreamOptionsFor(
    const v1::Limits& limits, const CallOptions& options) const {
  StreamOptions stream;
  stream.call_deadline = ToRaw(options).deadline;
  stream.max_message_bytes =
      std::min(limits.max_message_bytes(), max_response_bytes_);
  stream.max_calls = limits.max_stream_calls();
  return stream;
}

void AttentionClient::AttendAsync(const AttendMessage& message,
                                  const CallOptions& options,
                                  AttendCallback done) const {
  channel_.CallAsync(kAttendMethod, EncodeRequest(message), ToRaw(options),
                     Decoding(DecodeResponse, std::move(done)));
}

absl::StatusOr<BackwardResult> AttentionClient::AttendBackward(
    const BackwardMessage& message, const CallOptions& options) const {
  auto response = CallBorrowing(kAttendBackwardMethod,
                                EncodeBackwardRequest(message), options);
  if (!response.ok()) return response.status();
  return DecodeGradientResponse(*response);
}

void AttentionClient::AttendBackwardAsync(const BackwardMessage& message,
                                          const CallOptions& options,
                                          BackwardCallback done) const {
  channel_.CallAsync(kAttendBackwardMethod,
                     OwnChunks(EncodeBackwardRequest(message)), ToRaw(options),
                     Decoding(DecodeGradientResponse, std::move(done)));
}

absl::StatusOr<InspectResult> AttentionClient::Inspect(
    const InspectMessage& message, const CallOptions& options) const {
  std::atomic<int> borrowed = 0;
  RawCallOptions raw = ToRaw(options);
  raw.borrowed_slices = &borrowed;
  auto response =
      channel_.Call(kInspectMethod,
                    BorrowChunks(EncodeInspectRequest(message), borrowed), raw);
  if (!response.ok()) return response.status();
  const auto size = static_cast<int64_t>(response->Length());
  grpc::ProtoBufferReader reader(&*response);
  if (!reader.status().ok()) {
    return absl::InternalError("the response cannot be read");
  }
  return DecodeInspectResponse(reader, size);
}

absl::StatusOr<v1::PlanResponse> AttentionClient::Plan(
    const AttendMessage& message, const CallOptions& options) const {
  return Parse<v1::PlanResponse>(channel_.Call(
      kPlanMethod, Serialize(EncodePlanRequest(message)), ToRaw(options)));
}

absl::StatusOr<v1::GetServerInfoResponse> AttentionClient::GetServerInfo(
    const CallOptions& options) const {
  return Parse<v1::GetServerInfoResponse>(
      channel_.Call(kGetServerInfoMethod, Serialize(v1::GetServerInfoRequest()),
                    ToRaw(options)));
}

absl::Status AttentionClient::Health(const std::string& service,
                                     const CallOptions& options) const {
  grpc::Slice slice(EncodeHealthRequest(service));
  auto response = channel_.Call(kHealthCheckMethod, grpc::ByteBuffer(&slice, 1),
                                ToRaw(options, Repeat::kNever));
  if (!response.ok()) return response.status();
  const auto state = DecodeHealthResponse(Flatten(*response));
  if (!state.ok()) return state.status();
  if (*state == HealthState::kServing) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the server at ", address(), " says ", Name(*state)));
}

}  // namespace attn
