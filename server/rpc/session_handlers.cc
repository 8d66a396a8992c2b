#include "server/rpc/session_handlers.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/spec_codec.h"

namespace attn {
namespace {

constexpr int kDefaultSessionPage = 100;
constexpr int kLargestSessionPage = 1000;

v1::RollbackResponse AnswerOf(const SessionState& state) {
  v1::RollbackResponse response;
  response.set_epoch(state.epoch);
  response.set_step(state.next_step);
  return response;
}

}  // namespace

absl::StatusOr<SessionStore::Pin> AcquireSession(SessionStore& store,
                                                 const std::string& id,
                                                 const std::string& tenant) {
  auto session = store.Acquire(id, tenant);
  if (session.ok()) return session;
  if (absl::IsNotFound(session.status())) store.Count(SessionError::kNotFound);
  return CountKvMemory(session.status(), store);
}

absl::Status CountKvMemory(absl::Status status, SessionStore& store) {
  if (SessionReasonOf(status) == "KV_MEMORY") {
    store.Count(SessionError::kKvMemory);
  }
  return status;
}

v1::SessionInfo DescribeSession(const SessionSnapshot& snapshot) {
  const SessionSettings& settings = *snapshot.settings;
  v1::SessionInfo info;
  info.set_session_id(snapshot.id);
  info.set_epoch(snapshot.epoch);
  info.set_next_step(snapshot.next_step);
  info.mutable_lengths()->Add(snapshot.lengths.begin(), snapshot.lengths.end());
  info.set_q_heads(static_cast<int32_t>(settings.q_heads));
  info.set_kv_heads(static_cast<int32_t>(settings.layout.kv_heads));
  info.set_q_dim(static_cast<int32_t>(settings.q_dim));
  info.set_k_dim(static_cast<int32_t>(settings.layout.k_dim));
  info.set_v_dim(static_cast<int32_t>(settings.layout.v_dim));
  info.set_kv_dtype(EncodeDType(settings.layout.dtype));
  info.set_max_tokens(settings.max_tokens);
  info.set_idle_timeout_ms(absl::ToInt64Milliseconds(settings.idle_timeout));
  info.set_bytes(snapshot.bytes);
  info.set_own_bytes(snapshot.own_bytes);
  info.set_idle_ms(absl::ToInt64Milliseconds(snapshot.idle));
  info.set_age_ms(absl::ToInt64Milliseconds(snapshot.age));
  info.set_pipeline(settings.pipeline);
  info.set_spilled_bytes(snapshot.spilled_bytes);
  return info;
}

absl::StatusOr<v1::ForkResponse> ForkOf(const v1::ForkRequest& request,
                                        const SessionAsk& ask) {
  auto session = AcquireSession(ask.store, request.session_id(), ask.tenant);
  if (!session.ok()) return session.status();
  const SessionState& state = session->state();
  if (request.epoch() != state.epoch) {
    ask.store.Count(SessionError::kWrongEpoch);
    return SessionWrongEpoch(request.epoch(), state.epoch);
  }
  std::optional<int64_t> position;
  if (request.has_position()) position = request.position();
  const int64_t seen = session->settings().steps->window().seen();
  auto fork = ask.store.Fork(*session, position, seen, ask.tenant);
  if (!fork.ok()) return CountKvMemory(fork.status(), ask.store);
  v1::ForkResponse response;
  response.set_session_id(fork->id());
  response.set_epoch(fork->state().epoch);
  response.set_owner(ask.owner);
  session->Release(/*used=*/true);
  // While it is pinned, as it may be forgotten right afterwards.
  auto snapshot = ask.store.Describe(response.session_id(), ask.tenant);
  if (!snapshot.ok()) return snapshot.status();
  *response.mutable_session() = DescribeSession(*snapshot);
  fork->Release();
  return response;
}

absl::StatusOr<v1::RollbackResponse> RollbackOf(
    const v1::RollbackRequest& request, const SessionAsk& ask) {
  auto session = AcquireSession(ask.store, request.session_id(), ask.tenant);
  if (!session.ok()) return session.status();
  SessionState& state = session->state();
  const bool again = request.epoch() + 1 == state.epoch &&
                     state.rolled_back_to == request.position();
  if (again) {
    v1::RollbackResponse response = AnswerOf(state);
    session->Release(/*used=*/true);
    return response;
  }
  if (request.epoch() != state.epoch) {
    ask.store.Count(SessionError::kWrongEpoch);
    return SessionWrongEpoch(request.epoch(), state.epoch);
  }
  absl::Status status = CheckCut(state, request.position());
  if (!status.ok()) return status;
  status = CutLayers(state, request.position(),
                     session->settings().steps->window().seen());
  if (!status.ok()) return status;
  ++state.epoch;
  state.last.reset();
  state.rolled_back_to = request.position();
  v1::RollbackResponse response = AnswerOf(state);
  session->Release(/*used=*/true);
  return response;
}

absl::StatusOr<v1::CloseSessionResponse> CloseSessionOf(
    const v1::CloseSessionRequest& request, const SessionAsk& ask) {
  v1::CloseSessionResponse response;
  response.set_closed(ask.store.Close(request.session_id(), ask.tenant));
  return response;
}

absl::StatusOr<v1::GetSessionResponse> GetSessionOf(
    const v1::GetSessionRequest& request, const SessionAsk& ask) {
  auto snapshot = ask.store.Describe(request.session_id(), ask.tenant);
  if (!snapshot.ok()) return snapshot.status();
  v1::GetSessionResponse response;
  *response.mutable_session() = DescribeSession(*snapshot);
  return response;
}

absl::StatusOr<v1::ListSessionsResponse> ListSessionsOf(
    const v1::ListSessionsRequest& request, const SessionAsk& ask) {
  if (request.page_size() < 0 || request.page_size() > kLargestSessionPage) {
    return FieldError("page_size", absl::StrCat(request.page_size()),
                      absl::StrCat("0 to ", kLargestSessionPage));
  }
  const auto count = static_cast<size_t>(
      request.page_size() == 0 ? kDefaultSessionPage : request.page_size());
  // The token is the last id of the page before: it stays good whatever is
  // opened and closed in between.
  auto sessions = ask.store.List(ask.tenant, request.page_token(), count + 1);
  v1::ListSessionsResponse response;
  if (sessions.size() > count) {
    sessions.pop_back();
    response.set_next_page_token(sessions.back().id);
  }
  for (const SessionSnapshot& snapshot : sessions) {
    *response.add_sessions() = DescribeSession(snapshot);
  }
  return response;
}

}  // namespace attn
