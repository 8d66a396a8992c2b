// How many stages a spec may have: what planning and a tile cost at most.
#pragma once

#include "absl/status/status.h"
#include "engine/core/attention_spec.h"

namespace attn {

// Of each list; masks are counted with those inside of any_of.
inline constexpr int64_t kMaxStages = 64;

// INVALID_ARGUMENT that names the list, e.g. "spec.masks".
absl::Status CheckSpecSize(const AttentionSpec& spec);

}  // namespace attn
