// Opens, forks and closes sessions without waiting for the answers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/raw_call.h"

namespace attn {

// Which session, as the server names it. A value.
struct SessionName {
  std::string id;
  uint64_t epoch = 0;
};

// Each returns at once, and calls `done` exactly once, on a thread of gRPC's.
// Unlike steps, these are tried again where that may help, within the deadline.
// A session whose answer was lost with the last try stays open on the server
// until it was idle for too long.
namespace session_calls {

using NameDone = std::function<void(absl::StatusOr<SessionName> name)>;
// Whether it was there.
using CloseDone = std::function<void(absl::StatusOr<bool> closed)>;

// `request`: an OpenSessionRequest.
void Open(const RawChannel& channel, const grpc::ByteBuffer& request,
          absl::Duration deadline, NameDone done);
// Of all tokens that it has.
void Fork(const RawChannel& channel, const SessionName& of,
          absl::Duration deadline, NameDone done);
void Close(const RawChannel& channel, const std::string& id,
           absl::Duration deadline, CloseDone done);

}  // namespace session_calls
}  // namespace attn
