// What a store of sessions is made with.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace attn {

// A value.
struct SessionStoreOptions {
  // Of all sessions: their blocks, each once, their kept answers, and what each
  // takes by itself.
  int64_t max_bytes = int64_t{1} << 30;
  // Of one tenant's sessions, without answers, shared blocks counted for each;
  // 0: no bound.
  int64_t max_tenant_bytes = 0;
  // Whatever they hold.
  int64_t max_sessions = 100000;
  // Of a session that asks for none, and the most that one may ask for.
  absl::Duration idle_timeout = absl::Minutes(10);
  // A session that made no step for so long may make room for others.
  absl::Duration evict_after = absl::Seconds(30);
  // Where there is a disk: one that made no step for so long is spilled
  // although nobody needs its memory.
  absl::Duration spill_after = absl::Minutes(1);
};

}  // namespace attn
