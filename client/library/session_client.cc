#include "client/library/session_client.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/time/clock.h"
#include "engine/core/field_error.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "proto/codec/spec_codec.h"
#include "proto/codec/tensor_codec.h"

namespace attn {
namespace {

constexpr char kRollback[] = "/attention.v1.SessionService/Rollback";
constexpr char kGetSession[] = "/attention.v1.SessionService/GetSession";
constexpr char kListSessions[] = "/attention.v1.SessionService/ListSessions";

// The most that a page has, so that there are few.
constexpr int kSessionPage = 1000;

void CopyInput(const TensorView& view, v1::Tensor& message) {
  message = EncodeTensor(view.dtype, view.shape, /*bshd=*/false);
  const Payload payload = RowMajorPayload(view);
  const std::byte* data =
      payload.borrowed != nullptr ? payload.borrowed : payload.owned.data();
  message.set_data(data, payload.size);
}

}  // namespace

v1::OpenSessionRequest EncodeOpenSession(const NewSession& session) {
  v1::OpenSessionRequest request;
  *request.mutable_spec() = EncodeSpec(session.spec);
  request.set_layers(session.layers);
  request.set_q_heads(static_cast<int32_t>(session.q_heads));
  request.set_kv_heads(static_cast<int32_t>(session.kv_heads));
  request.set_q_dim(static_cast<int32_t>(session.q_dim));
  request.set_k_dim(static_cast<int32_t>(session.k_dim));
  request.set_v_dim(static_cast<int32_t>(session.v_dim));
  request.set_kv_dtype(EncodeDType(session.kv_dtype));
  request.set_max_tokens(session.max_tokens);
  request.set_idle_timeout_ms(absl::ToInt64Milliseconds(session.idle_timeout));
  for (const TensorView& input : session.inputs) {
    CopyInput(input, *request.add_inputs());
  }
  return request;
}

absl::StatusOr<SessionClient> SessionClient::Connect(
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
  return SessionClient(*std::move(channel), options.deadline);
}

absl::StatusOr<v1::OpenSessionResponse> SessionClient::Open(
    const NewSession& session, const CallOptions& options) const {
  return Open(EncodeOpenSession(session), options);
}

absl::StatusOr<v1::OpenSessionResponse> SessionClient::Open(
    const v1::OpenSessionRequest& request, const CallOptions& options) const {
  v1::OpenSessionResponse response;
  absl::Status status =
      Call(kOpenSessionMethod, request, ToRaw(options), response);
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<StepResult> SessionClient::Step(
    const StepMessage& message, const CallOptions& options) const {
  std::atomic<int> borrowed = 0;
  RawCallOptions raw = ToRaw(options, message.session_id);
  raw.borrowed_slices = &borrowed;
  auto response = channel_.Call(
      kStepMethod, BorrowChunks(EncodeStepRequest(message), borrowed), raw);
  if (!response.ok()) return response.status();
  return DecodeStep(*response);
}

std::unique_ptr<SessionStepStream> SessionClient::OpenStepStream(
    const CallOptions& options) const {
  return std::make_unique<SessionStepStream>(channel_, ToRaw(options));
}

absl::StatusOr<v1::ForkResponse> SessionClient::Fork(
    const std::string& session_id, uint64_t epoch,
    std::optional<int64_t> position, const CallOptions& options) const {
  v1::ForkRequest request;
  request.set_session_id(session_id);
  request.set_epoch(epoch);
  if (position.has_value()) request.set_position(*position);
  v1::ForkResponse response;
  absl::Status status =
      Call(kForkMethod, request, ToRaw(options, session_id), response);
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<v1::RollbackResponse> SessionClient::Rollback(
    const std::string& session_id, uint64_t epoch, int64_t position,
    const CallOptions& options) const {
  v1::RollbackRequest request;
  request.set_session_id(session_id);
  request.set_epoch(epoch);
  request.set_position(position);
  v1::RollbackResponse response;
  absl::Status status =
      Call(kRollback, request, ToRaw(options, session_id), response);
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<bool> SessionClient::Close(const std::string& session_id,
                                          const CallOptions& options) const {
  v1::CloseSessionRequest request;
  request.set_session_id(session_id);
  v1::CloseSessionResponse response;
  absl::Status status =
      Call(kCloseSessionMethod, request, ToRaw(options, session_id), response);
  if (!status.ok()) return status;
  return response.closed();
}

absl::StatusOr<v1::SessionInfo> SessionClient::Get(
    const std::string& session_id, const CallOptions& options) const {
  v1::GetSessionRequest request;
  request.set_session_id(session_id);
  v1::GetSessionResponse response;
  absl::Status status =
      Call(kGetSession, request, ToRaw(options, session_id), response);
  if (!status.ok()) return status;
  return std::move(*response.mutable_session());
}

absl::StatusOr<std::vector<v1::SessionInfo>> SessionClient::List(
    const CallOptions& options) const {
  // One deadline for all pages.
  const absl::Time end = absl::Now() + ToRaw(options).deadline;
  std::vector<v1::SessionInfo> sessions;
  v1::ListSessionsRequest request;
  request.set_page_size(kSessionPage);
  while (true) {
    v1::ListSessionsResponse response;
    const CallOptions rest{
        .deadline = std::max(end - absl::Now(), absl::Nanoseconds(1))};
    absl::Status status = Call(kListSessions, request, ToRaw(rest), response);
    if (!status.ok()) return status;
    for (v1::SessionInfo& session : *response.mutable_sessions()) {
      sessions.push_back(std::move(session));
    }
    if (response.next_page_token().empty()) return sessions;
    request.set_page_token(response.next_page_token());
  }
}

SessionClient SessionClient::RoutedTo(std::string owner) const {
  SessionClient routed = *this;
  routed.owner_ = std::move(owner);
  return routed;
}

RawCallOptions SessionClient::ToRaw(const CallOptions& options,
                                    const std::string& session_id) const {
  return {.deadline = options.deadline > absl::ZeroDuration() ? options.deadline
                                                              : deadline_,
          .repeat = Repeat::kAlways,
          .route = {.owner = owner_, .session_id = session_id}};
}

absl::Status SessionClient::Call(
    const char* method, const google::protobuf::MessageLite& request,
    const RawCallOptions& options,
    google::protobuf::MessageLite& response) const {
  auto bytes = channel_.Call(method, Serialize(request), options);
  if (!bytes.ok()) return bytes.status();
  if (bytes->Length() == 0) return absl::OkStatus();
  grpc::ProtoBufferReader reader(&*bytes);
  if (!reader.status().ok() || !response.ParseFromZeroCopyStream(&reader)) {
    return absl::InternalError("the response is malformed");
  }
  return absl::OkStatus();
}

}  // namespace attn
