// The steps of a session without a server: what they cost by themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "client/examples/storyteller/model.h"
#include "engine/cache/kv_block_pool.h"
#include "engine/cache/kv_sequence.h"
#include "engine/cache/step_spec.h"
#include "engine/engine.h"

namespace attn {

// The cache and the kernels that a session of that model has on a server.
// Not thread-safe.
class InProcessSteps {
 public:
  // `engine` must outlive it.
  InProcessSteps(Engine& engine, const LlamaSizes& sizes);

  // LlamaAttention's contract. Throws if the engine refuses: a fault of the
  // benchmark's.
  std::vector<float> Attend(const LlamaRows& rows);

 private:
  Engine& engine_;
  LlamaSizes sizes_;
  StepSpec steps_;
  KvBlockPool pool_;  // outlives layers_
  std::vector<KvSequence> layers_;
};

}  // namespace attn
