// q, k and v that come as one tensor.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/core/attention_args.h"

namespace attn {

// Views q, k and v of `args` as [B, H, S, D] in `qkv`, without a copy: [B, S,
// 3, H, D], or [B, S, Hq + 2 * packed_kv_heads, D], whose heads are those of q,
// then of k, then of v. INVALID_ARGUMENT names "qkv.shape" or
// "packed_kv_heads".
absl::Status UnpackQkv(const TensorView& qkv, int64_t packed_kv_heads,
                       AttentionArgs& args);

}  // namespace attn
