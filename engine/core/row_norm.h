// How long the rows of a tensor are.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/tensor_view.h"

namespace attn {

// Root mean square of the Euclidean norms of the rows of a [B, H, S, D] tensor
// of F32, F16, BF16 or F64, rows from lengths[b] on left out (empty: none). 0
// without a row, and for token rows [B, S, in]; NaN or infinite as the elements
// are. Sums in double.
double MeanRowNorm(const TensorView& tensor,
                   const std::vector<int64_t>& lengths);

}  // namespace attn
