// A tensor of rank 1 to 4 seen as [B, Hq, Sq, Sk].
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/core/problem.h"
#include "engine/core/tensor_view.h"

namespace attn {

// Whether problem.inputs[input] exists, has one of `dtypes` (in words:
// `dtype_names`) and broadcasts, aligned on the last axis. The error names
// `field`, the stage's reference to the tensor.
struct BroadcastRule {
  absl::Span<const DType> dtypes;
  const char* dtype_names;
};
absl::Status CheckBroadcast(const Problem& problem, uint32_t input,
                            const BroadcastRule& rule, absl::string_view field);

// Borrows the tensor. An axis of extent 1, or missing, has stride 0.
// Thread-safe: const.
class BroadcastView {
 public:
  // For a tensor that passed CheckBroadcast().
  explicit BroadcastView(const TensorView& tensor);

  DType dtype() const { return dtype_; }
  // Elements from one key (one query) to the next.
  int64_t key_stride() const { return strides_[3]; }
  int64_t row_stride() const { return strides_[2]; }
  // The element of a batch, query head, query and key.
  const std::byte* At(int64_t batch, int64_t head, int64_t row,
                      int64_t key) const;

 private:
  const std::byte* data_;
  DType dtype_;
  int64_t element_bytes_;
  int64_t strides_[4] = {0, 0, 0, 0};
};

}  // namespace attn
