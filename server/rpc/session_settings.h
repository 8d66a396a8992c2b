// What an OpenSessionRequest asks for, as a session keeps it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attention/v1/session.pb.h"
#include "engine/engine.h"
#include "proto/codec/schema.h"
#include "server/sessions/session.h"

namespace attn {

// Checks that the spec means the same over steps as in one call, and plans two
// of them; INVALID_ARGUMENT names the field. `most_idle`: the longest
// idle_timeout_ms, and that of a session that asks for none. Takes the inputs'
// memory out of the request; `opening` stays empty.
absl::StatusOr<std::shared_ptr<SessionSettings>> MakeSessionSettings(
    v1::OpenSessionRequest& request, Engine& engine, absl::Duration most_idle);

}  // namespace attn
