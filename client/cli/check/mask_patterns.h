// Masks that a case names by a pattern.
#pragma once

#include "absl/status/status.h"
#include "client/cli/check/case.h"
#include "client/cli/check/service.h"
#include "nlohmann/json.hpp"

namespace attn {

// The mask `mask.kind`. Skip() if it is none of the patterns.
absl::Status ApplyPattern(const Case& tested, const nlohmann::json& mask,
                          ServiceCall& call);

}  // namespace attn
