// What reading a case takes: slices, joins and other orders of tensors.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/library/host_tensor.h"
#include "nlohmann/json.hpp"

namespace attn {

// Elements [begin, end) of `axis`.
HostTensor Slice(const HostTensor& tensor, int axis, int64_t begin,
                 int64_t end);

// a and b joined along `axis`; the other extents and the dtypes are alike.
absl::StatusOr<HostTensor> Concat(const HostTensor& a, const HostTensor& b,
                                  int axis);

// [B, S, H, D] to [B, H, S, D] and back.
HostTensor SwapHeads(const HostTensor& tensor);

// [B, S, H * D] to [B, H, S, D], and back.
absl::StatusOr<HostTensor> SplitHeads(const HostTensor& tensor, int64_t heads);
HostTensor JoinHeads(const HostTensor& tensor);

// The same elements under another shape. INVALID_ARGUMENT if they do not fit.
absl::StatusOr<HostTensor> Reshaped(const HostTensor& tensor,
                                    const Shape& shape);

// [a, b] to [b, a]; the last two axes if there are more.
HostTensor Transposed(const HostTensor& tensor);

// F64, every element `value`.
HostTensor Filled(const Shape& shape, double value);

// x W^T + bias, in double: x [..., n], W [m, n], bias [m] or null. What a
// module does to its inputs and outputs is the caller's part.
absl::StatusOr<HostTensor> Project(const HostTensor& x,
                                   const HostTensor& weight,
                                   const HostTensor* bias);

// Applies `function` to each element.
template <typename Function>
HostTensor Map(const HostTensor& tensor, DType dtype, Function function) {
  HostTensor result(dtype, tensor.shape());
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    result.Set(i, function(tensor.At(i)));
  }
  return result;
}

// [4, 2] of a case's parameters. INVALID_ARGUMENT for anything else.
absl::StatusOr<std::vector<int64_t>> Integers(const nlohmann::json& json);

}  // namespace attn
