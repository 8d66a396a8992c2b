#include <string>
#include <utility>

#include "server/rpc/session_handlers.h"
#include "server/rpc/session_settings.h"

namespace attn {

absl::StatusOr<v1::OpenSessionResponse> OpenSessionOf(
    v1::OpenSessionRequest& request, const SessionAsk& ask) {
  // Before the inputs are taken out of it.
  std::string opening;
  if (ask.store.spills()) opening = request.SerializeAsString();
  auto settings = MakeSessionSettings(request, ask.engine, ask.idle_timeout);
  if (!settings.ok()) return settings.status();
  (*settings)->opening = std::move(opening);
  auto session = ask.store.Open(*std::move(settings), ask.tenant);
  if (!session.ok()) return CountKvMemory(session.status(), ask.store);
  v1::OpenSessionResponse response;
  response.set_session_id(session->id());
  response.set_epoch(session->state().epoch);
  response.set_owner(ask.owner);
  // While it is pinned, as it may be forgotten right afterwards.
  auto snapshot = ask.store.Describe(response.session_id(), ask.tenant);
  if (!snapshot.ok()) return snapshot.status();
  *response.mutable_session() = DescribeSession(*snapshot);
  session->Release();
  return response;
}

}  // namespace attn
