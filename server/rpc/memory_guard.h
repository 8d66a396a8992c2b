// Memory that the system does not give, as a refusal.
#pragma once

#include <new>

#include "engine/runtime/out_of_memory.h"
#include "server/batching/refusal.h"

namespace attn {

// As where --max-inflight-bytes is held by others: worth a retry.
inline absl::Status RefuseMemory() {
  return Refuse(Refusal::kMemory, OutOfMemory().message());
}

// What `run` gives, a status or what one may become; RefuseMemory() if it
// throws std::bad_alloc. Past gRPC that would end the process, or leave a call
// without a reply.
template <typename Run>
auto RefusingMemory(const Run& run) -> decltype(run()) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return RefuseMemory();
  }
}

}  // namespace attn
