// One session: what the steps of a client append to and attend over.
#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/cache/kv_block_pool.h"
#include "engine/cache/kv_sequence.h"
#include "engine/cache/step_spec.h"
#include "engine/core/aligned_buffer.h"

namespace attn {

// What a session is opened with and keeps; forks share it. Immutable.
struct SessionSettings {
  // The memory of the spec's inputs, which it views.
  std::vector<AlignedBuffer> storage;
  std::shared_ptr<const StepSpec> steps;
  int64_t q_heads = 0;
  int64_t q_dim = 0;
  KvLayout layout;
  int layers = 1;
  // 0: no bound of its own.
  int64_t max_tokens = 0;
  absl::Duration idle_timeout;
  // For people: the stages in order.
  std::string pipeline;
  // What the door makes these settings of again; empty where no session is
  // spilled.
  std::string opening;
};

// The answer to the last step, for whoever asks again.
struct SessionAnswer {
  uint64_t step = 0;
  // Of the request's payloads and numbers.
  uint64_t digest = 0;
  // What the transport sends; without it the answer is computed again.
  std::any message{};
  // For the message; null without one.
  KvCharge charge{};
};

// What changes with the steps. Whoever has the session pinned may use it.
struct SessionState {
  uint64_t epoch = 0;
  uint64_t next_step = 0;
  std::vector<KvSequence> layers;
  std::optional<SessionAnswer> last;
  // The rollback that led to this epoch, to answer it again.
  std::optional<int64_t> rolled_back_to;
};

// Tokens of the layer that has most.
int64_t LongestLayer(const SessionState& state);
// INVALID_ARGUMENT names "position" unless it is 0 to LongestLayer().
absl::Status CheckCut(const SessionState& state, int64_t position);
// Forgets the tokens from `position` on in all layers, or in none:
// FAILED_PRECONDITION as of KvSequence::Truncate(), `window` as there.
absl::Status CutLayers(SessionState& state, int64_t position, int64_t window);

// What is told of a session, as of its last release: own_bytes too, although
// forks come and go. A value.
struct SessionSnapshot {
  std::string id;
  std::shared_ptr<const SessionSettings> settings;
  uint64_t epoch = 0;
  uint64_t next_step = 0;
  std::vector<int64_t> lengths;
  // In memory.
  int64_t bytes = 0;
  int64_t own_bytes = 0;
  // Of its file; 0: it is in memory.
  int64_t spilled_bytes = 0;
  absl::Duration idle;
  absl::Duration age;
};

}  // namespace attn
