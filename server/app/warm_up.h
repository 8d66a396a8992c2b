// A few small calls before the first real one.
#pragma once

#include "absl/status/status.h"
#include "engine/engine.h"

namespace attn {

// Runs decode- and prefill-like calls in every float type, so that the first
// request does not pay for code generation and page faults.
absl::Status WarmUp(Engine& engine);

}  // namespace attn
