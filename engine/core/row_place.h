// Where the rows of one head lie in a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/core/dtype.h"

namespace attn {

// In elements. A value; thread-compatible.
struct RowPlace {
  int64_t first = 0;  // the first element of row 0
  int64_t row_stride = 0;
  int64_t element_stride = 0;
};

// Of head `head` of batch entry `batch`. Without `offsets` the tensor is [B, H,
// S, D]; with them it is ragged, [rows, H, D], and the rows of the entry begin
// at offsets[batch]. View is TensorView or MutableTensorView.
template <typename View>
RowPlace PlaceOf(const View& tensor, const std::vector<int64_t>& offsets,
                 int64_t batch, int64_t head) {
  const auto& strides = tensor.strides;
  if (offsets.empty()) {
    return {batch * strides[0] + head * strides[1], strides[2], strides[3]};
  }
  return {offsets[static_cast<size_t>(batch)] * strides[0] + head * strides[1],
          strides[0], strides[2]};
}

// Whether rows so placed are f32 that a matrix product can read in place:
// elements side by side, rows that do not overlap.
template <typename View>
bool IsMatrix(const View& tensor, const RowPlace& place) {
  return tensor.dtype == DType::kF32 && place.element_stride == 1 &&
         place.row_stride >= tensor.shape[tensor.shape.rank() - 1];
}

}  // namespace attn
