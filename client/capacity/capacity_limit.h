// What can be the limit of a deployment.
#pragma once

#include "absl/strings/string_view.h"

namespace attn {

enum class CapacityLimit {
  kCores,
  kMemoryBus,
  kMemory,
  kNetworkIn,
  kNetworkOut,
  // --p99 of a step.
  kStepLatency,
  // A token must be through all layers before the next one is due.
  kTokenTime,
  // --max-sessions of a server.
  kSessionCount,
  kProxyCores,
  kProxyNetwork,
};

// "cores", "memory bus", ...
absl::string_view NameOf(CapacityLimit limit);

}  // namespace attn
