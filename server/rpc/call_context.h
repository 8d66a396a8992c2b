// What the calls of a server work with.
#pragma once

#include <cstdint>

#include "engine/engine.h"
#include "engine/runtime/clock.h"
#include "server/batching/admission.h"
#include "server/batching/batcher.h"
#include "server/layers/layer_store.h"
#include "server/rpc/call_observer.h"
#include "server/sessions/session_store.h"

namespace attn {

// What every job of a server shares. Borrowed; must outlive the jobs.
struct CallContext {
  Engine& engine;
  Admission& admission;
  Batcher& batcher;
  CallObserver& observer;
  const Clock& clock;
  // Of a request and of a response.
  int64_t max_message_bytes = int64_t{256} << 20;
  // What specs name by layer; null: there are none.
  const LayerStore* layers = nullptr;
  // What steps append to; null: there are none.
  SessionStore* sessions = nullptr;
};

}  // namespace attn
