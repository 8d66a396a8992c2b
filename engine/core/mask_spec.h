// Which keys a query may attend. A key is visible where every mask of a spec
// allows it. uint32_t members are indices into AttentionArgs::inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "engine/core/alignment.h"
#include "engine/core/mask_pattern_spec.h"
#include "engine/core/program_spec.h"
#include "engine/core/spec_value.h"

namespace attn {

// j <= p(i)
struct CausalMask {
  Alignment alignment = Alignment::kUnspecified;
  auto Fields() const { return std::tie(alignment); }
};

// p(i) - left <= j <= p(i) + right; absent: unbounded.
struct WindowMask {
  std::optional<int64_t> left;
  std::optional<int64_t> right;
  Alignment alignment = Alignment::kUnspecified;
  auto Fields() const { return std::tie(left, right, alignment); }
};

// inputs[input], BOOL, broadcast to [B, Hq, Sq, Sk]; true = may attend.
struct DenseMask {
  uint32_t input = 0;
  auto Fields() const { return std::tie(input); }
};

// j < prefix[b], or j <= p(i). One prefix for all batch entries, or B of them.
struct PrefixMask {
  std::vector<int64_t> prefix;
  Alignment alignment = Alignment::kUnspecified;
  auto Fields() const { return std::tie(prefix, alignment); }
};

// q_segments[b, i] == kv_segments[b, j]; I32 or I64, [B, S] or [S].
struct SegmentMask {
  uint32_t q_segments = 0;
  uint32_t kv_segments = 0;
  auto Fields() const { return std::tie(q_segments, kv_segments); }
};

// layout[h, i / q_block, j / kv_block]; BOOL, broadcast over leading axes:
// [nq, nk], [Hq, nq, nk] or [B, Hq, nq, nk].
struct BlockSparseMask {
  uint32_t layout = 0;
  int64_t q_block = 1;
  int64_t kv_block = 1;
  auto Fields() const { return std::tie(layout, q_block, kv_block); }
};

// i is a global token, or j is. Positions in the sequence; i stands for p(i).
struct GlobalMask {
  std::vector<int64_t> tokens;
  Alignment alignment = Alignment::kUnspecified;
  auto Fields() const { return std::tie(tokens, alignment); }
};

// Allowed where the program is true.
struct ProgramMask {
  ProgramSpec program;
  auto Fields() const { return std::tie(program); }
};

struct MaskSpec;

// Allowed where one of the masks allows it.
struct AnyOfMask {
  std::vector<MaskSpec> masks;
  auto Fields() const { return std::tie(masks); }
};

struct MaskSpec
    : std::variant<CausalMask, WindowMask, DenseMask, PrefixMask, SegmentMask,
                   BlockSparseMask, GlobalMask, DilatedMask, StridedMask,
                   FixedMask, BigBirdMask, LongformerMask, StreamingMask,
                   AnyOfMask, ProgramMask> {
  using variant::variant;

  template <typename H>
  friend H AbslHashValue(H h, const MaskSpec& mask) {
    return internal::HashField(std::move(h), static_cast<const variant&>(mask));
  }
};

}  // namespace attn
