// What only this room can read of a spilled session.
#pragma once

#include "absl/time/time.h"
#include "engine/engine.h"
#include "server/sessions/session_spiller.h"

namespace attn {

// A session is kept as its OpenSessionRequest, an answer as the bytes of its
// message. `most_idle` as of MakeSessionSettings(): one that asked for more,
// from a server that allowed it, gets that. The engine must outlive it.
SpillCodec MakeSpillCodec(Engine& engine, absl::Duration most_idle);

}  // namespace attn
