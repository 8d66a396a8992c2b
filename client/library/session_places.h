// Where a session can be, and how it gets there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/attention_client.h"
#include "client/library/replay_history.h"
#include "client/library/session_client.h"

namespace attn {

struct RemoteSessionOptions {
  // Servers that may have the session, or a proxy before them, each in one of
  // the forms of server_address.h. The first that takes it has it; when it is
  // gone, those after it are asked in turn, and that one last. Behind one that
  // names several servers each must have an --advertise-address.
  std::vector<std::string> addresses = {"127.0.0.1:8001"};
  // The owner that a server names is told to the proxy at the address
  // (call_route.h), and not called by itself.
  bool through_proxy = false;
  // Of all connections; its address is not used.
  ClientOptions client{};
  // Makes the client of an address; null: SessionClient::Connect(). Called
  // again by forks, from whatever thread uses them.
  std::function<absl::StatusOr<SessionClient>(const std::string& address)>
      connect{};
  // Of k and v that are kept to be sent again. With more the session ends with
  // its server.
  int64_t max_replay_bytes = int64_t{4} << 30;
  // When a session is gone and no address takes it, all are asked again for so
  // long, within the call's deadline: a server that was just started may not
  // have been seen yet.
  absl::Duration patience = absl::Seconds(10);
};

// A session on a server. A value.
struct SessionPlace {
  SessionClient client;
  std::string id;
  uint64_t epoch = 0;
  uint64_t next_step = 0;
};

// Opens one kind of session wherever it can. Thread-compatible; a copy shares
// the connections.
class SessionPlaces {
 public:
  SessionPlaces(RemoteSessionOptions options, v1::OpenSessionRequest request)
      : options_(std::move(options)), request_(std::move(request)) {}

  // A session with the tokens of `history`, which must be complete(), at the
  // first address that takes it, beginning with the one after that of the last
  // call. One that does not answer has its share of the time alone: the others
  // keep theirs. All are asked again until `patience` has passed, unless none
  // of them may change its mind. The error is the last address's.
  absl::StatusOr<SessionPlace> Open(const ReplayHistory& history,
                                    absl::Duration patience, absl::Time end);

  // Gives a session that has the first `begin` tokens of each layer the rest of
  // `history`, which must be complete(). What comes before an error stays.
  absl::Status Replay(const ReplayHistory& history, int64_t begin,
                      absl::Time end, SessionPlace& place) const;

  // The client of a session that `asked` has opened or forked, whose server
  // says that it is `owner`; empty: it does not say.
  absl::StatusOr<SessionClient> OwnerOf(const std::string& owner,
                                        const SessionClient& asked);

 private:
  // Divides the time until an end among those that may yet be asked.
  struct SharedTime {
    absl::Time end;
    int64_t askers = 1;

    // Of a call that begins now.
    CallOptions Share() const;
  };

  absl::StatusOr<SessionClient> ClientOf(const std::string& address);
  absl::StatusOr<SessionPlace> OpenAt(const std::string& address,
                                      const ReplayHistory& history,
                                      const SharedTime& time);
  absl::Status Replay(const ReplayHistory& history, int64_t begin,
                      const SharedTime& time, SessionPlace& place) const;

  RemoteSessionOptions options_;
  // What sessions are opened with.
  v1::OpenSessionRequest request_;
  std::map<std::string, SessionClient> clients_;
  // Of options_.addresses.
  size_t next_ = 0;
};

// Whether the session that a call was about is not to be had there any more.
bool IsSessionLost(const absl::Status& status);

// What is left of a call whose end that is.
CallOptions RestUntil(absl::Time end);

}  // namespace attn
