#include "client/cli/local_isa.h"

#include "engine/engine.h"

namespace attn {

absl::Status LimitLocalIsa(const std::string& name) {
  const absl::StatusOr<IsaCap> cap = ParseIsaCap(name);
  if (!cap.ok()) return cap.status();
  return LimitIsa(*cap);
}

}  // namespace attn
