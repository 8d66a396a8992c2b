// Attention as its definition reads, in double, one element at a time.
//
// Shares nothing with engine/: it is what the kernels are tested against, so
// that a mistake would have to be made twice. Speed is no aim.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace attn::oracle {

// Row-major; rank 1 to 4, aligned on the last axis of [B, Hq, Sq, Sk], extents
// of 1 and missing ones broadcast.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> data;
};

// p - left <= j <= p + right around the position p of query i: i, or
// i + kv_length - Sq for the bottom-right diagonal. Causal: right = 0.
struct Band {
  std::optional<int64_t> left;
  std::optional<int64_t> right;
  bool bottom_right = false;
};

// One call. q [B, Hq, Sq, Dk], k [B, Hkv, Sk, Dk], v [B, Hkv, Sk, Dv].
struct Case {
  int64_t batch = 1;
  int64_t q_heads = 1;
  int64_t kv_heads = 1;
  int64_t q_length = 1;
  int64_t kv_length = 1;
  int64_t qk_dim = 1;
  int64_t v_dim = 1;
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;

  std::optional<double> scale;  // absent: 1 / sqrt(Dk)
  std::optional<double> softcap;
  std::vector<Tensor> dense_biases;
  // Each a list of slopes by head; an empty list is the published slopes.
  std::vector<std::vector<double>> alibi_biases;
  std::vector<Band> bands;
  std::vector<Tensor> dense_masks;  // not 0: may attend
  std::vector<int64_t> q_lengths;
  std::vector<int64_t> kv_lengths;
  std::vector<double> temperatures;  // none, one, or one for each query head
};

// Row-major; [B, Hq, Sq, ...]. Rows beyond q_length are as empty ones, their
// logits and those of keys beyond kv_length 0.
struct Result {
  std::vector<double> output;
  std::vector<double> logits;
  std::vector<double> masked_logits;
  std::vector<double> weights;
  std::vector<double> lse;
  std::vector<double> entropy;
  std::vector<double> peak_weight;
  std::vector<int64_t> top_key;
  std::vector<int64_t> visible_keys;
};

Result Attend(const Case& call);

// The slopes of Press et al. 2022 for `heads` heads.
std::vector<double> PublishedSlopes(int64_t heads);

}  // namespace attn::oracle
