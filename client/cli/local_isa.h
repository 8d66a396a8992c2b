// The instruction set of what `attn` computes itself.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace attn {

// Holds this process to the cap of that name. Once, before anything is
// computed; INVALID_ARGUMENT names "max_isa". Not thread-safe.
absl::Status LimitLocalIsa(const std::string& name);

}  // namespace attn
