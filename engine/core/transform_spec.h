// What is done to the rows of q and k before they are compared.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <variant>

#include "engine/core/spec_value.h"

namespace attn {

enum class TransformTarget : uint8_t { kBoth = 1, kQuery = 2, kKey = 3 };

enum class RotaryLayout : uint8_t {
  kInterleaved = 1,  // pairs (2i, 2i + 1)
  kHalfSplit = 2,    // pairs (i, i + dim / 2)
};

// Rotary position embedding (Su et al. 2021, section 3.2): pair i at position
// p turns by p / position_scale * base^(-2i / rotary_dim).
struct RotaryTransform {
  RotaryLayout layout = RotaryLayout::kInterleaved;
  TransformTarget target = TransformTarget::kBoth;
  double base = 10000;
  // Leading dimensions that turn; even. Absent: all.
  std::optional<int64_t> rotary_dim;
  // Position of row 0.
  int64_t query_offset = 0;
  int64_t key_offset = 0;
  double position_scale = 1;
  // Positions of rows, I64 [B, S] or [S], in place of offset + row.
  std::optional<uint32_t> query_positions;
  std::optional<uint32_t> key_positions;
  // cos and sin of the angles in place of base: [P, rotary_dim / 2] by
  // position, or [B, S, rotary_dim / 2] by row. Both or neither, of one shape.
  std::optional<uint32_t> cos;
  std::optional<uint32_t> sin;
  auto Fields() const {
    return std::tie(layout, target, base, rotary_dim, query_offset, key_offset,
                    position_scale, query_positions, key_positions, cos, sin);
  }
};

enum class NormKind : uint8_t {
  kL2 = 1,   // x / max(|x|, eps)
  kRms = 2,  // x / sqrt(mean(x^2) + eps)
};

// Normalises each row, then multiplies by a weight [d] or [H, d] if given
// (QK-norm: Henry et al. 2020; Dehghani et al. 2023).
struct NormTransform {
  NormKind kind = NormKind::kRms;
  TransformTarget target = TransformTarget::kBoth;
  double eps = 1e-6;
  std::optional<uint32_t> query_weight;
  std::optional<uint32_t> key_weight;
  auto Fields() const {
    return std::tie(kind, target, eps, query_weight, key_weight);
  }
};

using TransformSpec = std::variant<RotaryTransform, NormTransform>;

}  // namespace attn
