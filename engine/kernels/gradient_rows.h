// Gradients from the kernels' buffers to the caller's tensors.
#pragma once

#include <cstdint>

#include "engine/core/row_span.h"
#include "engine/core/tensor_view.h"
#include "engine/kernels/head_rows.h"
#include "engine/kernels/kernel.h"

namespace attn {

// The cotangent of the output, [B, Hq, Sq, d_v] or ragged as the output is.
HeadRows OutputGradientRows(const KernelCall& call, int64_t batch,
                            int64_t head);

// The span's rows of call.gradients.q, k or v, of any layout, F32 or F64,
// padded or ragged; `rows` null: zeros. An unwanted tensor is passed over, and
// so are rows that a ragged one does not have. Counts what is infinite or NaN
// once rounded. Jobs write disjoint rows; thread-compatible.
void StoreHeadRows(const KernelCall& call, const MutableTensorView& tensor,
                   const RowSpan& span, const double* rows);

// The same from f32 rows, `stride` elements from one to the next.
void StoreHeadRows(const KernelCall& call, const MutableTensorView& tensor,
                   const RowSpan& span, const float* rows, int64_t stride);

// Zeros to the rows of such a tensor.
void ClearHeadRows(const KernelCall& call, const MutableTensorView& tensor,
                   const RowSpan& span);

// Elements [first, first + count) in row-major order of a tensor of any layout.
void StoreFlat(const MutableTensorView& tensor, int64_t first, int64_t count,
               const double* values);

}  // namespace attn
