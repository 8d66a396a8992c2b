// Cases whose keys and values are integers with scales.
#pragma once

#include "absl/status/status.h"
#include "client/cli/check/case.h"
#include "client/cli/check/service.h"

namespace attn {

// Takes the scales k_scale and v_scale of `tested` as inputs of the call, at
// the granularity that params.kv_quant names.
absl::Status ApplyKvQuantization(const Case& tested,
                                 const nlohmann::json& kv_quant,
                                 ServiceCall& call);

}  // namespace attn
