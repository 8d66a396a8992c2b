// The masks of a case.
#pragma once

#include "absl/status/status.h"
#include "client/cli/check/case.h"
#include "client/cli/check/service.h"
#include "nlohmann/json.hpp"

namespace attn {

// params.mask, in either of its spellings: {"kind": "causal", ...} or
// {"causal": "top_left", "kv_lens": [...], ...}. Skip() for a mask that the
// wire cannot say.
absl::Status ApplyMask(const Case& tested, const nlohmann::json& mask,
                       ServiceCall& call);

// {"left", "right", "align", "sink_tokens"}: null is unbounded. The first
// sink_tokens keys stay visible to the left of the window.
absl::Status ApplyWindow(const nlohmann::json& window, ServiceCall& call);

// Masks that come as inputs: mask, key_mask, seg_q and seg_k.
absl::Status ApplyMaskInputs(const Case& tested, ServiceCall& call);

}  // namespace attn
