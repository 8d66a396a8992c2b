// The tensors of one call: borrowed, never owned.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/core/kv_blocks.h"
#include "engine/core/score_window.h"
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

  // Query head h reads KV head h / group_size(): query heads for each KV head,
  // 0 where there are none.
  int64_t group_size() const { return kv_heads == 0 ? 0 : q_heads / kv_heads; }

  friend bool operator==(const AttentionShape&,
                         const AttentionShape&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const AttentionShape& s) {
    return H::combine(std::move(h), s.batch, s.q_heads, s.kv_heads, s.q_length,
                      s.kv_length, s.q_dim, s.k_dim, s.v_dim);
  }
};

// Inputs. q [B, Hq, Sq, d_q], k [B, Hkv, Sk, d_k], v [B, Hkv, Sk, d_v]; the
// strides may make any layout of it. Ragged, with offsets: q [rows, Hq, d_q], k
// and v [rows, Hkv, d]; B is the number of sequences, Sq and Sk the longest of
// their lengths. With spec.projections they may be token rows, [B, S, in], and
// v may be absent (rank 0, no data).
struct AttentionArgs {
  TensorView q;
  TensorView k;
  TensorView v;
  // What the spec's stages point to by index.
  std::vector<TensorView> inputs;
  // [B] or empty (all of Sq, all of Sk).
  std::vector<int64_t> q_lengths;
  std::vector<int64_t> kv_lengths;
  // Gradient of a loss with respect to the output, of its shape: only for
  // AttentionOutputs::gradient_weight.
  TensorView d_output;
  // [B + 1], ascending from 0 to the number of rows, or empty; both or neither.
  // Then the lengths above are empty.
  std::vector<int64_t> q_offsets;
  std::vector<int64_t> kv_offsets;

  // With blocks k and v have types and shapes, [1, Hkv, Sk, d], and no data.
  // They may be F32, F16 or BF16 beside a q of any of these, or I8 with scales
  // for each token, whose inputs have no data either.
  KvBlocks kv_blocks;

  bool ragged() const { return !q_offsets.empty(); }
};

// Tensors to fill; each may be unwanted (null). Float tensors are F32, or F64
// in a double call; `output` may also be F16 or BF16, and is ragged if q is:
// all others are padded to Sq and Sk.
struct AttentionOutputs {
  // [B, Hq, Sq, d_v]; ragged [rows, Hq, d_v]; projected [B, Sq, out].
  MutableTensorView output;
  MutableTensorView head_output;    // [B, Hq, Sq, d_v], as `output` in type
  MutableTensorView lse;            // [B, Hq, Sq]
  MutableTensorView logits;         // [B, Hq, Sq, Sk], after scale
  MutableTensorView masked_logits;  // [B, Hq, Sq, Sk], final, -inf excluded
  MutableTensorView weights;        // [B, Hq, Sq, Sk], before dropout
  MutableTensorView lse_with_sink;  // [B, Hq, Sq]
  MutableTensorView dropout_keep;   // [B, Hq, Sq, Sk], BOOL
  MutableTensorView state;          // [B, Hkv, d_k, d_v], linear attention
  // [B, Hq, Sq, Sk]: |weight| * |v|, and weight * d loss / d weight for the
  // cotangent d_output; 0 for excluded keys.
  MutableTensorView contribution;
  MutableTensorView gradient_weight;
  // The part that logits, masked_logits, weights and these two hold: they are
  // of its shape. It does not change a bit of what they hold.
  ScoreWindow window;
};

}  // namespace attn
