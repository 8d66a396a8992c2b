// Tensors between the wire's terms and the engine's.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/tensor_view.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/schema.h"
#include "proto/codec/wire_message.h"

namespace attn {

// A view of `tensor`'s payload, row-major as on the wire, which borrows it.
// Errors name its dtype, shape or data: an unknown dtype, an impossible shape,
// a payload of another length than dtype and shape say, a BOOL that is neither
// 0 nor 1. A tensor without elements gets a payload of no bytes, not null. The
// bytes of a pending one are not looked at.
absl::StatusOr<TensorView> DecodeTensor(WireTensor& tensor);

// dtype and shape alone; data is null.
absl::StatusOr<TensorView> DecodeTensorSignature(const v1::Tensor& metadata,
                                                 const std::string& name);

// INVALID_ARGUMENT unless every byte is 0 or 1.
absl::Status CheckBool(absl::Span<const std::byte> data,
                       const std::string& name);

// The same without a payload: data is null.
absl::StatusOr<TensorView> DecodeTensorInfo(const v1::TensorInfo& info,
                                            const std::string& name);

// `view` as [B, H, S, D]. Errors name the layout, or the shape if a layout is
// given for another rank than 4.
absl::StatusOr<TensorView> FromLayout(TensorView view, v1::TensorLayout layout,
                                      const std::string& name);

// `view`, [B, H, S, D], in the wire's order of axes.
TensorView ToLayout(TensorView view, bool bshd);

// All but the data of a tensor whose shape is the wire's. `bshd` says what to
// write as layout; false writes none.
v1::Tensor EncodeTensor(DType dtype, const Shape& shape, bool bshd);

// The bytes of `view` in row-major order: borrowed if they lie so in memory,
// otherwise gathered.
Payload RowMajorPayload(const TensorView& view);

}  // namespace attn
