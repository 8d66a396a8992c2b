// A stage's parameter: a float tensor of the call, read in row-major order.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "engine/core/problem.h"
#include "engine/core/tensor_view.h"

namespace attn {

// Whether problem.inputs[input] exists, is F32, F16, BF16 or F64 and has one of
// `shapes`. The error names `field`, the stage's reference to the tensor.
absl::Status CheckParameter(const Problem& problem, uint32_t input,
                            std::initializer_list<Shape> shapes,
                            absl::string_view field);

// The same for integer tensors, I32 or I64.
absl::Status CheckIndices(const Problem& problem, uint32_t input,
                          std::initializer_list<Shape> shapes,
                          absl::string_view field);

// Borrows the tensor. Thread-safe: const.
class ParameterView {
 public:
  explicit ParameterView(const TensorView& tensor) : tensor_(tensor) {}

  int64_t size() const { return tensor_.shape.element_count(); }
  int rank() const { return tensor_.shape.rank(); }
  int64_t extent(int axis) const { return tensor_.shape[axis]; }

  // Elements [first, first + count) in row-major order; T is float or double.
  template <typename T>
  void Load(int64_t first, int64_t count, T* to) const;
  double At(int64_t index) const;
  // An element of an I32 or I64 tensor.
  int64_t IndexAt(int64_t index) const;

  // Index of the first element of a head's slice, for a tensor that may have a
  // leading head axis: `rank_without` is its rank if it has none.
  int64_t HeadOffset(int64_t head, int rank_without) const;

 private:
  const std::byte* Locate(int64_t index) const;

  const TensorView& tensor_;
};

}  // namespace attn
