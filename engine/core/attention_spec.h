// What is to be computed: one attention variant as a value.
//
// The stages run in the order of SEMANTICS in engine/README.md:
// score, scale, softcap, biases, masks, temperature, normalizer, times v.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace attn {

// scale * <q, k>; scale absent: 1 / sqrt(d_k). Vaswani et al. 2017, 3.2.1.
struct DotScore {
  std::optional<double> scale;
  friend bool operator==(const DotScore&, const DotScore&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const DotScore& s) {
    return H::combine(std::move(h), s.scale.has_value(), s.scale.value_or(0));
  }
};

using ScoreSpec = std::variant<DotScore>;

// inputs[input], broadcast to [B, Hq, Sq, Sk]. An element of -inf excludes.
struct DenseBias {
  uint32_t input = 0;
  friend bool operator==(const DenseBias&, const DenseBias&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const DenseBias& b) {
    return H::combine(std::move(h), b.input);
  }
};

// -slope[h] * |i + Sk - Sq - j|. Press et al. 2022, section 3. Empty slopes:
// the published ones.
struct AlibiBias {
  std::vector<double> slopes;
  friend bool operator==(const AlibiBias&, const AlibiBias&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const AlibiBias& b) {
    return H::combine(std::move(h), b.slopes);
  }
};

using BiasSpec = std::variant<DenseBias, AlibiBias>;

// Key position of query row i: i (top left) or i + kv_length - Sq (bottom
// right). kUnspecified is legal only where both agree.
enum class Alignment : uint8_t {
  kUnspecified = 0,
  kTopLeft = 1,
  kBottomRight = 2,
};

// j <= position(i)
struct CausalMask {
  Alignment alignment = Alignment::kUnspecified;
  friend bool operator==(const CausalMask&, const CausalMask&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const CausalMask& m) {
    return H::combine(std::move(h), m.alignment);
  }
};

// position(i) - left <= j <= position(i) + right; absent: unbounded.
struct WindowMask {
  std::optional<int64_t> left;
  std::optional<int64_t> right;
  Alignment alignment = Alignment::kUnspecified;
  friend bool operator==(const WindowMask&, const WindowMask&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const WindowMask& m) {
    return H::combine(std::move(h), m.left.has_value(), m.left.value_or(0),
                      m.right.has_value(), m.right.value_or(0), m.alignment);
  }
};

// inputs[input], BOOL, broadcast to [B, Hq, Sq, Sk]; true = may attend.
struct DenseMask {
  uint32_t input = 0;
  friend bool operator==(const DenseMask&, const DenseMask&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const DenseMask& m) {
    return H::combine(std::move(h), m.input);
  }
};

using MaskSpec = std::variant<CausalMask, WindowMask, DenseMask>;

// exp(x - lse)
struct SoftmaxNormalizer {
  friend bool operator==(const SoftmaxNormalizer&,
                         const SoftmaxNormalizer&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const SoftmaxNormalizer&) {
    return h;
  }
};

using NormalizerSpec = std::variant<SoftmaxNormalizer>;

namespace internal {

// Debian's absl::Hash does not know std::variant.
template <typename H, typename... T>
H HashVariant(H h, const std::variant<T...>& v) {
  h = H::combine(std::move(h), v.index());
  return std::visit(
      [&h](const auto& value) { return H::combine(std::move(h), value); }, v);
}

}  // namespace internal

// Equal specs hash equal and may share a plan. Holds no tensors.
// A value; thread-compatible.
struct AttentionSpec {
  ScoreSpec score;
  // logits = softcap * tanh(logits / softcap); > 0.
  std::optional<double> softcap;
  std::vector<BiasSpec> biases;
  std::vector<MaskSpec> masks;
  // Empty: off; one: for all heads; Hq: one for each query head. Each > 0.
  std::vector<double> temperatures;
  NormalizerSpec normalizer;

  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const AttentionSpec& s) {
    h = internal::HashVariant(std::move(h), s.score);
    h = H::combine(std::move(h), s.softcap.has_value(), s.softcap.value_or(0),
                   s.temperatures, s.biases.size(), s.masks.size());
    for (const BiasSpec& b : s.biases) {
      h = internal::HashVariant(std::move(h), b);
    }
    for (const MaskSpec& m : s.masks) {
      h = internal::HashVariant(std::move(h), m);
    }
    return internal::HashVariant(std::move(h), s.normalizer);
  }
};

}  // namespace attn
