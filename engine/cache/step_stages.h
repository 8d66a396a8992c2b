// Which stages of a spec mean the same over steps as in one call.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/attention_spec.h"
#include "engine/core/tensor_view.h"

namespace attn {

// A step's queries are the last rows of its keys: what looks at positions goes
// on from step to step, what looks at rows of a call or at its lengths does
// not. INVALID_ARGUMENT names the first stage that does the latter, and
// projections and a quantization, which a session has no use for.
//
// Aligns masks that leave it open at the bottom right. Looks at the extents of
// `inputs` alone; whether they exist and fit is checked with the problem.
// Thread-safe: pure.
absl::Status FitToSteps(AttentionSpec& spec,
                        absl::Span<const TensorView> inputs);

}  // namespace attn
