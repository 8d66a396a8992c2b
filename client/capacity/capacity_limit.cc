#include "client/capacity/capacity_limit.h"

namespace attn {

absl::string_view NameOf(CapacityLimit limit) {
  switch (limit) {
    case CapacityLimit::kCores:
      return "cores";
    case CapacityLimit::kMemoryBus:
      return "memory bus";
    case CapacityLimit::kMemory:
      return "memory";
    case CapacityLimit::kNetworkIn:
      return "network in";
    case CapacityLimit::kNetworkOut:
      return "network out";
    case CapacityLimit::kStepLatency:
      return "p99 of a step";
    case CapacityLimit::kTokenTime:
      return "time of a token";
    case CapacityLimit::kSessionCount:
      return "sessions";
    case CapacityLimit::kProxyCores:
      return "proxy cores";
    case CapacityLimit::kProxyNetwork:
      return "proxy network";
  }
  return "";
}

}  // namespace attn
