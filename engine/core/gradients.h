// Cotangents that a backward call brings, and the gradients it gives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/core/tensor_view.h"

namespace attn {

// Gradients of a loss with respect to a call's outputs. Null data: 0.
struct OutputGradients {
  // [B, Hq, Sq, d_v], ragged [rows, Hq, d_v], or [B, Sq, out] with an output
  // layer; F32, F16, BF16 or F64.
  TensorView output;
  TensorView lse;  // [B, Hq, Sq]; F32 or F64
};

// Which gradients a call wants, and which cotangents it brings.
struct GradientSelection {
  bool from_output = false;
  bool from_lse = false;
  bool q = false;
  bool k = false;
  bool v = false;
  // Indices into AttentionArgs::inputs, ascending, of float tensors.
  std::vector<uint32_t> inputs;

  // Whether the problem is a backward one.
  bool any() const { return from_output || from_lse; }
  bool WantsInput(const std::optional<uint32_t>& input) const {
    return input.has_value() &&
           std::binary_search(inputs.begin(), inputs.end(), *input);
  }

  friend bool operator==(const GradientSelection&,
                         const GradientSelection&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const GradientSelection& s) {
    return H::combine(std::move(h), s.from_output, s.from_lse, s.q, s.k, s.v,
                      s.inputs);
  }
};

// Tensors to fill, F32 or (in a double call) F64; null: not wanted. They are of
// the shape of what they belong to: a gradient with respect to a tensor that
// broadcasts is summed.
struct InputGradients {
  // [B, Hq, Sq, d_q], or token rows [B, Sq, in]; ragged as q is.
  MutableTensorView q;
  MutableTensorView k;  // [B, Hkv, Sk, d_k] likewise
  MutableTensorView v;  // [B, Hkv, Sk, d_v] likewise
  // One for each of AttentionArgs::inputs.
  std::vector<MutableTensorView> inputs;
};

// Gradients with respect to numbers of the spec; they always come.
struct ScalarGradients {
  // The score's scale; 0 for a score without.
  double scale = 0;
  double softcap = 0;
  // One for each of AttentionSpec::temperatures.
  std::vector<double> temperatures;
};

}  // namespace attn
