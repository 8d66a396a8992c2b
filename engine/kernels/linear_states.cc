#include "engine/kernels/linear_states.h"

#include <algorithm>
#include <cmath>

#include "engine/runtime/arena.h"

namespace attn {

LinearStates::LinearStates(const AttentionShape& shape)
    : s_elements_(shape.k_dim * shape.v_dim),
      sum_elements_(shape.k_dim),
      segment_keys_(std::max<int64_t>(
          static_cast<int64_t>(
              std::ceil(std::sqrt(static_cast<double>(shape.kv_length)))),
          1)),
      segments_((shape.kv_length + segment_keys_ - 1) / segment_keys_) {}

// Checkpoints, the states of a segment, the gradient.
size_t LinearStates::bytes() const {
  const int64_t states = (segments_ + 1) + segment_keys_ + 1;
  return Arena::Padded(
      static_cast<size_t>(states * (s_elements_ + sum_elements_)) *
      sizeof(double));
}

LinearState LinearStates::At(std::byte* memory, int64_t index) const {
  double* s =
      reinterpret_cast<double*>(memory) + index * (s_elements_ + sum_elements_);
  return {s, s + s_elements_};
}

LinearState LinearStates::Checkpoint(std::byte* memory, int64_t segment) const {
  return At(memory, segment);
}

LinearState LinearStates::After(std::byte* memory, int64_t index) const {
  return At(memory, segments_ + 1 + index);
}

LinearState LinearStates::Gradient(std::byte* memory) const {
  return At(memory, segments_ + 1 + segment_keys_);
}

void LinearStates::Clear(const LinearState& state) const {
  std::fill_n(state.s, s_elements_, 0.0);
  std::fill_n(state.sum, sum_elements_, 0.0);
}

void LinearStates::Copy(const LinearState& from, const LinearState& to) const {
  std::copy_n(from.s, s_elements_, to.s);
  std::copy_n(from.sum, sum_elements_, to.sum);
}

}  // namespace attn
