// Where stages add the gradients of the call's parameters.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace attn {

// One row-major double buffer for each tensor of AttentionArgs::inputs, of its
// shape; null where no gradient is wanted or the tensor is no float.
// Thread-compatible: one job owns it.
class GradientSink {
 public:
  explicit GradientSink(std::vector<double*> buffers)
      : buffers_(std::move(buffers)) {}

  // Null: not wanted.
  double* Of(uint32_t input) const { return buffers_[input]; }

 private:
  std::vector<double*> buffers_;
};

}  // namespace attn
