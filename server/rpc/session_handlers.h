// What the short methods of SessionService answer.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attention/v1/session.pb.h"
#include "engine/engine.h"
#include "proto/codec/schema.h"
#include "server/sessions/session_store.h"

namespace attn {

// Who asks whom. Borrowed.
struct SessionAsk {
  SessionStore& store;
  Engine& engine;
  const std::string& tenant;
  const std::string& owner;
  absl::Duration idle_timeout;
};

// INVALID_ARGUMENT names the field. Takes the inputs out of the request.
absl::StatusOr<v1::OpenSessionResponse> OpenSessionOf(
    v1::OpenSessionRequest& request, const SessionAsk& ask);
absl::StatusOr<v1::ForkResponse> ForkOf(const v1::ForkRequest& request,
                                        const SessionAsk& ask);
absl::StatusOr<v1::RollbackResponse> RollbackOf(
    const v1::RollbackRequest& request, const SessionAsk& ask);
absl::StatusOr<v1::CloseSessionResponse> CloseSessionOf(
    const v1::CloseSessionRequest& request, const SessionAsk& ask);
absl::StatusOr<v1::GetSessionResponse> GetSessionOf(
    const v1::GetSessionRequest& request, const SessionAsk& ask);
absl::StatusOr<v1::ListSessionsResponse> ListSessionsOf(
    const v1::ListSessionsRequest& request, const SessionAsk& ask);

// SessionStore::Acquire(); counts what is not found, and what has no room to
// come back from disk.
absl::StatusOr<SessionStore::Pin> AcquireSession(SessionStore& store,
                                                 const std::string& id,
                                                 const std::string& tenant);

// Counts a refusal for want of memory; passes any status on.
absl::Status CountKvMemory(absl::Status status, SessionStore& store);

v1::SessionInfo DescribeSession(const SessionSnapshot& snapshot);

}  // namespace attn
