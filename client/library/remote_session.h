// A session that outlives its server: what it holds is known here too, and is
// given to another server when the first is gone. The documentation calls it
// Session.
//
//   auto session = RemoteSession::Open({.q_heads = 8, .q_dim = 64},
//                                      {.addresses = {"a:8001", "b:8001"}});
//   auto outputs = session->Step(
//       {{.layer = 0, .q = q.view(), .k = k.view(), .v = v.view()}});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"
#include "client/library/replay_history.h"
#include "client/library/session_client.h"
#include "client/library/session_doubts.h"
#include "client/library/session_places.h"

namespace attn {

// One sequence, of which a server keeps k and v of every layer, and this keeps
// what it takes to make the same session elsewhere. A call finds the session
// gone when its server does not answer (UNAVAILABLE after the tries that
// ClientOptions::retry allows, or CANCELLED, which nothing here asks for), or
// does not know it (NOT_FOUND with SESSION_NOT_HERE or SESSION_EXPIRED). It
// then opens another at the next address, sends k and v of all tokens again
// with queries of zeros, and goes on with what it was about to do. The outputs
// are the same as if nothing had happened, bit for bit on servers that compute
// alike. A step whose answer was lost is sent again under its number, and is
// answered as before.
//
// All other errors are the caller's, as the server gave them (ErrorReasonOf(),
// call_status.h), and leave the session as it was: here, and for the next call
// on the server too. A step or a rollback that failed, as after
// DEADLINE_EXCEEDED, may have been done there all the same; made again it is
// answered as before, and before another call it is undone, by k and v that are
// kept for a replay. Without those the other call is FAILED_PRECONDITION. If a
// session that is gone cannot be had again, the error has the code and the
// reason of the loss, and its message says why; the next call tries anew.
//
// The deadline of a call is one for all that it takes, a replay too. The
// destructor does not close the session: one that is left is forgotten when it
// was idle for too long.
//
// Move-only; thread-compatible, and its forks are apart from it.
class RemoteSession {
 public:
  // INVALID_ARGUMENT for options that cannot be meant; or why the last address
  // did not take it: here each is asked once.
  static absl::StatusOr<RemoteSession> Open(const NewSession& session,
                                            const RemoteSessionOptions& options,
                                            const CallOptions& call = {});

  // Appends n tokens to each named layer and attends: q [1, q_heads, n, q_dim],
  // k [1, kv_heads, n, k_dim], v [1, kv_heads, n, v_dim]. The layers must have
  // equally many tokens before it. One output for each: [1, q_heads, n, v_dim],
  // or [1, n, q_heads, v_dim] if its `bshd` is set, of the type of its q.
  // INVALID_ARGUMENT names what does not fit together.
  absl::StatusOr<std::vector<HostTensor>> Step(
      const std::vector<StepTensors>& layers, const CallOptions& call = {});
  // Forgets the tokens from `position` on, in every layer.
  absl::Status Rollback(int64_t position, const CallOptions& call = {});
  // Another session, on the same server, with the tokens before `position`;
  // absent: all. One whose answer was lost is left to the server, which forgets
  // it when it was idle for too long.
  absl::StatusOr<RemoteSession> Fork(
      std::optional<int64_t> position = std::nullopt,
      const CallOptions& call = {});
  // Forgets the session here, and on its server if that answers. Every call but
  // this is FAILED_PRECONDITION from then on, whatever this returns.
  absl::Status Close(const CallOptions& call = {});

  int layers() const { return history_.layers(); }
  // Tokens of a layer, 0 to layers() - 1.
  int64_t length(int layer = 0) const { return history_.length(layer); }
  // Where it is now, and what the server calls it.
  const std::string& address() const { return place_.client.address(); }
  // Its server, if that is behind a proxy and told its name.
  const std::string& owner() const { return place_.client.owner(); }
  const std::string& id() const { return place_.id; }
  uint64_t epoch() const { return place_.epoch; }
  // How often it went on elsewhere.
  int64_t moves() const { return moves_; }
  // Memory of k and v that are kept for a replay; and whether there can be one,
  // which there cannot beyond max_replay_bytes.
  int64_t replay_bytes() const { return history_.bytes(); }
  bool can_replay() const { return history_.complete(); }

 private:
  RemoteSession(SessionPlaces places, SessionPlace place, ReplayHistory history,
                absl::Duration patience, absl::Duration deadline)
      : places_(std::move(places)),
        place_(std::move(place)),
        history_(std::move(history)),
        patience_(patience),
        deadline_(deadline) {}

  absl::Status CheckOpen() const;
  // What a step sends, but for what changes with the place.
  absl::StatusOr<StepMessage> MessageOf(
      const std::vector<StepTensors>& layers) const;
  // Makes a call of the place, and again of the next one while the session is
  // lost.
  template <typename Call>
  auto Surviving(absl::Time end, const Call& call) -> decltype(call());
  // A step, and again if only another that was not answered was in its way.
  absl::StatusOr<StepResult> StepHere(StepMessage& message, absl::Time end);
  // Of the tokens before `position`.
  absl::StatusOr<RemoteSession> ForkHere(int64_t position, absl::Time end);
  absl::Status RollBackHere(int64_t position, absl::Time end);
  // FAILED_PRECONDITION if a server's session has other lengths.
  absl::Status CheckLengths(const v1::SessionInfo& there) const;
  // Goes on elsewhere after `lost`, with the tokens of `history`.
  absl::Status Move(const absl::Status& lost, const ReplayHistory& history,
                    absl::Time end);
  absl::Time EndOf(const CallOptions& call) const;

  SessionPlaces places_;
  SessionPlace place_;
  // Of the place.
  SessionDoubts doubts_;
  ReplayHistory history_;
  absl::Duration patience_;
  // Of calls that name none.
  absl::Duration deadline_;
  int64_t moves_ = 0;
  bool closed_ = false;
};

}  // namespace attn
