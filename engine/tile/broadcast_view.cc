#include "engine/tile/broadcast_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr int kAxes = 4;

}  // namespace

absl::Status CheckBroadcast(const Problem& problem, uint32_t input,
                            const BroadcastRule& rule,
                            absl::string_view field) {
  if (input >= problem.inputs.size()) {
    return FieldError(
        field, absl::StrCat(input),
        absl::StrCat("the index of one of ", problem.inputs.size(), " inputs"));
  }
  const TensorSignature& tensor = problem.inputs[input];
  if (std::find(rule.dtypes.begin(), rule.dtypes.end(), tensor.dtype) ==
      rule.dtypes.end()) {
    return FieldError(
        field, absl::StrCat("inputs[", input, "] of type ", Name(tensor.dtype)),
        rule.dtype_names);
  }
  const AttentionShape& s = problem.shape;
  const Shape target = {s.batch, s.q_heads, s.q_length, s.kv_length};
  const int rank = tensor.shape.rank();
  bool fits = rank >= 1 && rank <= kAxes;
  for (int axis = 0; fits && axis < rank; ++axis) {
    const int64_t extent = tensor.shape[axis];
    fits = extent == 1 || extent == target[kAxes - rank + axis];
  }
  if (fits) return absl::OkStatus();
  return FieldError(
      field,
      absl::StrCat("inputs[", input, "] of shape ", tensor.shape.ToString()),
      absl::StrCat("rank 1 to 4 that broadcasts to [B, Hq, Sq, Sk] = ",
                   target.ToString()));
}

BroadcastView::BroadcastView(const TensorView& tensor)
    : data_(tensor.data),
      dtype_(tensor.dtype),
      element_bytes_(static_cast<int64_t>(SizeOf(tensor.dtype))) {
  const int rank = tensor.shape.rank();
  for (int axis = 0; axis < rank; ++axis) {
    if (tensor.shape[axis] == 1) continue;
    strides_[kAxes - rank + axis] = tensor.strides[static_cast<size_t>(axis)];
  }
}

const std::byte* BroadcastView::At(int64_t batch, int64_t head, int64_t row,
                                   int64_t key) const {
  return data_ + element_bytes_ * (batch * strides_[0] + head * strides_[1] +
                                   row * strides_[2] + key * strides_[3]);
}

}  // namespace attn
