// The tensors of one call: borrowed, never owned.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/core/tensor_view.h"

namespace attn {

// Extents of one call, taken from q, k and v by MakeProblem().
struct AttentionShape {
  int64_t batch = 0;
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t q_length = 0;   // Sq
  int64_t kv_length = 0;  // Sk
  int64_t q_dim = 0;      // d_q; d_k but for scores that project q and k
  int64_t k_dim = 0;      // d_k
  int64_t v_dim = 0;      // d_v

  // Query head h reads KV head h / group_size(); >= 1.
  int64_t group_size() const { return q_heads == 0 ? 1 : q_heads / kv_heads; }

  friend bool operator==(const AttentionShape&,
                         const AttentionShape&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const AttentionShape& s) {
    return H::combine(std::move(h), s.batch, s.q_heads, s.kv_heads, s.q_length,
                      s.kv_length, s.q_dim, s.k_dim, s.v_dim);
  }
};

// Inputs. q [B, Hq, Sq, d_q], k [B, Hkv, Sk, d_k], v [B, Hkv, Sk, d_v]; the
// strides may make any layout of it.
struct AttentionArgs {
  TensorView q;
  TensorView k;
  TensorView v;
  // What the spec's stages point to by index.
  std::vector<TensorView> inputs;
  // [B] or empty (all of Sq, all of Sk).
  std::vector<int64_t> q_lengths;
  std::vector<int64_t> kv_lengths;
};

// Tensors to fill; each may be unwanted (null). Float tensors are F32, or F64
// in a double call; `output` may also be F16 or BF16.
struct AttentionOutputs {
  MutableTensorView output;         // [B, Hq, Sq, d_v]
  MutableTensorView lse;            // [B, Hq, Sq]
  MutableTensorView logits;         // [B, Hq, Sq, Sk], after scale
  MutableTensorView masked_logits;  // [B, Hq, Sq, Sk], final, -inf excluded
  MutableTensorView weights;        // [B, Hq, Sq, Sk], before dropout
  MutableTensorView lse_with_sink;  // [B, Hq, Sq]
  MutableTensorView dropout_keep;   // [B, Hq, Sq, Sk], BOOL
  MutableTensorView state;          // [B, Hkv, d_k, d_v], linear attention
};

}  // namespace attn
