// How a query is compared with a key.
//
// Parameters are tensors of the call: `uint32_t` members that name one are
// indices into AttentionArgs::inputs. A leading head axis is optional: Hq for
// the query's side, Hkv for the key's.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <variant>

#include "engine/core/spec_value.h"

namespace attn {

// Multiplies the score by exp(min(log_scale[h], max_log_scale)); the input is
// [Hq] or [1]. Liu et al. 2022 (Swin v2), section 3.2.
struct LearnedScale {
  uint32_t log_scale = 0;
  std::optional<double> max_log_scale;
  auto Fields() const { return std::tie(log_scale, max_log_scale); }
};

// scale * <q, k>; scale absent: 1 / sqrt(d_k). Vaswani et al. 2017, 3.2.1.
struct DotScore {
  std::optional<double> scale;
  std::optional<LearnedScale> learned_scale;
  auto Fields() const { return std::tie(scale, learned_scale); }
};

// scale * (q W k + bias), W [d_q, d_k] or [Hq, d_q, d_k]; scale absent: 1.
// "General" of Luong et al. 2015, section 3.1.
struct BilinearScore {
  uint32_t weight = 0;
  double bias = 0;
  std::optional<double> scale;
  auto Fields() const { return std::tie(weight, bias, scale); }
};

// Element by element.
enum class Activation : uint8_t {
  kTanh = 1,
  kRelu = 2,
  kSigmoid = 3,
  kGelu = 4,  // exact, by erf
  kIdentity = 5,
};

// v . f(q W_q + b + k W_k) + bias. W_q [d_q, a] or [Hq, d_q, a], W_k [d_k, a]
// or [Hkv, d_k, a], b [a] or [Hq, a], v [a] or [Hq, a]. Without a weight the
// row itself is used, and its width is a. Bahdanau et al. 2015, appendix A.1.2.
struct AdditiveScore {
  std::optional<uint32_t> query_weight;
  std::optional<uint32_t> key_weight;
  std::optional<uint32_t> query_bias;
  uint32_t v = 0;
  Activation activation = Activation::kTanh;
  double bias = 0;
  auto Fields() const {
    return std::tie(query_weight, key_weight, query_bias, v, activation, bias);
  }
};

// v . f(W [q; k]), W [d_q + d_k, a], v [a]. "Concat" of Luong et al. 2015, 3.1.
struct ConcatScore {
  uint32_t weight = 0;
  uint32_t v = 0;
  Activation activation = Activation::kTanh;
  auto Fields() const { return std::tie(weight, v, activation); }
};

// w . [q; k; q * k] + bias, w [3 d]. Seo et al. 2017, section 2.
struct TrilinearScore {
  uint32_t weight = 0;
  double bias = 0;
  auto Fields() const { return std::tie(weight, bias); }
};

// scale * <q, k> / (max(|q|, eps) max(|k|, eps)); scale absent: 1.
struct CosineScore {
  std::optional<double> scale;
  std::optional<LearnedScale> learned_scale;
  double eps = 1e-12;
  auto Fields() const { return std::tie(scale, learned_scale, eps); }
};

enum class Distance : uint8_t {
  kSquaredL2 = 1,  // |q - k|^2: a Gaussian kernel under softmax
  kL1 = 2,         // sum |q - k|: a Laplace kernel
  kL2 = 3,         // |q - k|
};

// -scale * distance(q, k); scale absent: 1.
struct DistanceScore {
  Distance distance = Distance::kSquaredL2;
  std::optional<double> scale;
  auto Fields() const { return std::tie(distance, scale); }
};

using ScoreSpec =
    std::variant<DotScore, BilinearScore, AdditiveScore, ConcatScore,
                 TrilinearScore, CosineScore, DistanceScore>;

}  // namespace attn
