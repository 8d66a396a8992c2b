// The shapes that a call with projections has inside: those of the heads.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"

namespace attn {

// Checks spec.projections, which must be there, against the tensors of the
// call, and gives the call that the heads see: q [B, Hq, Sq, d_q], k and v
// without data where they are projected, all else as it came.
// INVALID_ARGUMENT names the field.
absl::StatusOr<AttentionArgs> HeadArgs(const AttentionSpec& spec,
                                       const AttentionArgs& args);

}  // namespace attn
