// What is done to token rows before the heads and after them.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "engine/core/spec_value.h"
#include "engine/core/transform_spec.h"

namespace attn {

// x W^T + bias for each row x: inputs[weight] [out, in], inputs[bias] [out].
struct LinearLayer {
  uint32_t weight = 0;
  std::optional<uint32_t> bias;
  auto Fields() const { return std::tie(weight, bias); }
};

// Multi-head latent attention (DeepSeek-AI 2024, section 2.1). q holds the
// token rows of the queries, k those of the keys, there is no v. Of each head
// the first `plain_dim` elements have no position and the other
// `rotary.rotary_dim` turn; the keys' turning part is shared by all heads.
struct LatentProjection {
  // [rank, in]. Absent: query_up is applied to the token rows.
  std::optional<LinearLayer> query_down;
  // RMS norm weight of the compressed query, [rank].
  std::optional<uint32_t> query_norm;
  // [Hq * (plain_dim + rotary_dim), rank]
  LinearLayer query_up;
  // [latent + rotary_dim, in]
  LinearLayer kv_down;
  // RMS norm weight of the latent part, [latent].
  std::optional<uint32_t> kv_norm;
  // [Hq * (plain_dim + d_v), latent]: of each head the key, then the value.
  LinearLayer kv_up;
  int64_t plain_dim = 0;
  RotaryTransform rotary;
  // Of both norms.
  double eps = 1e-6;
  auto Fields() const {
    return std::tie(query_down, query_norm, query_up, kv_down, kv_norm, kv_up,
                    plain_dim, rotary, eps);
  }
};

// Where a part is absent its tensor comes by head, [B, H, S, D]; where it is
// there the tensor is token rows, [B, S, in], and head h has the h-th part of
// the projected row.
struct ProjectionSpec {
  std::optional<LinearLayer> query;
  std::optional<LinearLayer> key;
  std::optional<LinearLayer> value;
  // Of the concatenated heads, [out, Hq * d_v]. The output is [B, Sq, out].
  std::optional<LinearLayer> output;
  // Needed with any of query, key, value and latent.
  int64_t q_heads = 0;
  // Absent: as q_heads.
  std::optional<int64_t> kv_heads;
  // In place of query, key and value.
  std::optional<LatentProjection> latent;
  auto Fields() const {
    return std::tie(query, key, value, output, q_heads, kv_heads, latent);
  }
};

}  // namespace attn
