// How a row of final logits x becomes weights. uint32_t members are indices
// into AttentionArgs::inputs. An excluded key has weight 0, a row without
// visible keys only zeros.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <variant>

#include "engine/core/spec_value.h"

namespace attn {

// exp(x - lse). With a sink, [Hq] or [Hq, n]: its logits join the sum once and
// get weight that no value receives.
struct SoftmaxNormalizer {
  std::optional<uint32_t> sink;
  auto Fields() const { return std::tie(sink); }
};

// exp(x) / (n + sum exp(x)); n = 1 is softmax-off-by-one (Miller 2023).
struct SoftmaxPlusNormalizer {
  double n = 1;
  auto Fields() const { return std::tie(n); }
};

// Euclidean projection on the simplex. Martins and Astudillo 2016.
struct SparsemaxNormalizer {
  auto Fields() const { return std::tuple<>(); }
};

// alpha-entmax, alpha >= 1 (Peters et al. 2019); one alpha, or an input [Hq]
// of them (Correia et al. 2019). Neither: 1.5.
struct EntmaxNormalizer {
  std::optional<double> alpha;
  std::optional<uint32_t> alphas;
  auto Fields() const { return std::tie(alpha, alphas); }
};

// What a weight is divided by.
enum class Divisor : uint8_t {
  kOne = 1,
  kVisibleKeys = 2,  // the number of keys the row may attend
};

// sigmoid(x + bias) / divisor. Ramapuram et al. 2024.
struct SigmoidNormalizer {
  double bias = 0;
  Divisor divisor = Divisor::kOne;
  auto Fields() const { return std::tie(bias, divisor); }
};

// relu(x)^power / divisor, power > 0. Wortsman et al. 2023.
struct ReluNormalizer {
  double power = 1;
  Divisor divisor = Divisor::kOne;
  auto Fields() const { return std::tie(power, divisor); }
};

// relu(x) / (sum relu(x) + eps); a row whose sum is 0 gets zeros.
struct DivisiveNormalizer {
  double eps = 0;
  auto Fields() const { return std::tie(eps); }
};

// Weight 1 on the largest logit, the lowest index on ties.
struct HardNormalizer {
  auto Fields() const { return std::tuple<>(); }
};

// softmax, times exp(-(j - c)^2 / (2 (radius / 2)^2)) within |j - c| <= radius,
// c = visible keys * sigmoid(v . tanh(q W)). W [d_q, a], v [a]. Local-p of
// Luong et al. 2015, section 3.2.
struct LocalNormalizer {
  uint32_t weight = 0;
  uint32_t v = 0;
  double radius = 1;
  auto Fields() const { return std::tie(weight, v, radius); }
};

// The logits themselves.
struct IdentityNormalizer {
  auto Fields() const { return std::tuple<>(); }
};

enum class FeatureMap : uint8_t {
  kIdentity = 1,
  kEluPlusOne = 2,
  kRelu = 3,
  kExp = 4,
};

enum class UpdateRule : uint8_t {
  kLinear = 1,      // S = S + k v
  kGated = 2,       // S = e^decay S + k v
  kDelta = 3,       // S = S + beta k (v - k S)
  kGatedDelta = 4,  // both
};

// No score matrix: out = scale * phi(q) S, with S updated key by key
// (Katharopoulos et al. 2020; Schlag et al. 2021; Yang et al. 2024). Causal,
// unless `bidirectional`: then S holds every key. With `normalize`, divided by
// phi(q) . sum phi(k) + eps. decay [B, Sk, Hkv * d_k or Hkv], beta [B, Sk, Hkv
// or 1], state [B, Hkv, d_k, d_v]. ONNX LinearAttention-27.
struct LinearNormalizer {
  FeatureMap feature_map = FeatureMap::kEluPlusOne;
  UpdateRule update_rule = UpdateRule::kLinear;
  bool bidirectional = false;
  bool normalize = true;
  double eps = 1e-6;
  std::optional<uint32_t> decay;
  std::optional<uint32_t> beta;
  std::optional<uint32_t> state;
  auto Fields() const {
    return std::tie(feature_map, update_rule, bidirectional, normalize, eps,
                    decay, beta, state);
  }
};

using NormalizerSpec =
    std::variant<SoftmaxNormalizer, SoftmaxPlusNormalizer, SparsemaxNormalizer,
                 EntmaxNormalizer, SigmoidNormalizer, ReluNormalizer,
                 DivisiveNormalizer, HardNormalizer, LocalNormalizer,
                 IdentityNormalizer, LinearNormalizer>;

}  // namespace attn
