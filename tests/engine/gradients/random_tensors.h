// Backward calls of random tensors of any type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "engine/core/aligned_buffer.h"
#include "engine/tile/convert.h"
#include "tests/engine/gradients/kernel_run.h"

namespace attn::testing {

struct Extents {
  int64_t batch = 1;
  int64_t q_heads = 2;
  int64_t kv_heads = 2;
  int64_t q_length = 1;
  int64_t kv_length = 1;
  int64_t dim = 8;
  int64_t v_dim = 8;
};

// Owns the tensors. The same for the same seed. Thread-compatible.
class RandomTensors {
 public:
  RandomTensors(const Extents& e, DType dtype, uint32_t seed = 1)
      : dtype_(dtype), random_(seed) {
    call_.args.q = Add({e.batch, e.q_heads, e.q_length, e.dim});
    call_.args.k = Add({e.batch, e.kv_heads, e.kv_length, e.dim});
    call_.args.v = Add({e.batch, e.kv_heads, e.kv_length, e.v_dim});
    call_.cotangents.output = Add({e.batch, e.q_heads, e.q_length, e.v_dim});
    call_.wanted.from_output = true;
    call_.wanted.q = call_.wanted.k = call_.wanted.v = true;
  }

  BackwardCall& call() { return call_; }
  AttentionSpec& spec() { return call_.spec; }
  // Of q, k, v or the output's cotangent, in a call of F32.
  float* Row(const TensorView& tensor, int64_t batch, int64_t head,
             int64_t row) {
    const int64_t index =
        (batch * tensor.shape[1] + head) * tensor.shape[2] + row;
    return reinterpret_cast<float*>(const_cast<std::byte*>(tensor.data)) +
           index * tensor.shape[3];
  }
  uint32_t AddInput(const Shape& shape) {
    call_.args.inputs.push_back(Add(shape));
    const auto index = static_cast<uint32_t>(call_.args.inputs.size() - 1);
    call_.wanted.inputs.push_back(index);
    return index;
  }
  // A mask that allows an element with probability `share`.
  uint32_t AddMask(const Shape& shape, double share) {
    std::bernoulli_distribution draw(share);
    AlignedBuffer bytes(static_cast<size_t>(shape.element_count()));
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes.data()[i] = std::byte{draw(random_)};
    }
    tensors_.push_back(std::move(bytes));
    call_.args.inputs.push_back(
        TensorView::Dense(tensors_.back().data(), DType::kBool, shape));
    return static_cast<uint32_t>(call_.args.inputs.size() - 1);
  }

 private:
  TensorView Add(const Shape& shape) {
    std::normal_distribution<float> draw;
    std::vector<float> values(static_cast<size_t>(shape.element_count()));
    for (float& x : values) x = draw(random_);
    AlignedBuffer bytes(values.size() * SizeOf(dtype_));
    StoreElements(values.data(), shape.element_count(), dtype_, bytes.data());
    tensors_.push_back(std::move(bytes));
    return TensorView::Dense(tensors_.back().data(), dtype_, shape);
  }

  DType dtype_;
  std::mt19937 random_;
  std::vector<AlignedBuffer> tensors_;
  BackwardCall call_;
};

}  // namespace attn::testing
