// Which keys a query may attend. A key is visible where every mask of a spec
// allows it. uint32_t members are indices into AttentionArgs::inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "engine/core/program_spec.h"
#include "engine/core/spec_value.h"

namespace attn {

// Key position p(i) of query row i: i (top left) or i + kv_length - Sq (bottom
// right). kUnspecified is legal only where both agree.
enum class Alignment : uint8_t {
  kUnspecified = 0,
  kTopLeft = 1,
  kBottomRight = 2,
};

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

// |p(i) - j| <= radius and (p(i) - j) mod dilation == 0; radius absent:
// unbounded.
struct DilatedMask {
  int64_t dilation = 1;
  std::optional<int64_t> radius;
  Alignment alignment = Alignment::kUnspecified;
  auto Fields() const { return std::tie(dilation, radius, alignment); }
};

// j <= p(i), and p(i) - j < stride or (p(i) - j) mod stride == 0. Child et al.
// 2019, section 4.2 (strided).
struct StridedMask {
  int64_t stride = 1;
  Alignment alignment = Alignment::kUnspecified;
  auto Fields() const { return std::tie(stride, alignment); }
};

// j <= p(i), and j / stride == p(i) / stride or j mod stride >= stride -
// summary. Child et al. 2019, section 4.2 (fixed).
struct FixedMask {
  int64_t stride = 1;
  int64_t summary = 1;
  Alignment alignment = Alignment::kUnspecified;
  auto Fields() const { return std::tie(stride, summary, alignment); }
};

// In blocks of `block` tokens: the window of window_blocks around the own
// block, the first global_blocks blocks (as rows and as columns), and
// random_blocks more for each block row, drawn by Philox-4x32-10 from (seed,
// head, block row). Zaheer et al. 2020, section 2.
struct BigBirdMask {
  int64_t block = 1;
  int64_t window_blocks = 3;
  int64_t global_blocks = 1;
  int64_t random_blocks = 1;
  uint64_t seed = 0;
  auto Fields() const {
    return std::tie(block, window_blocks, global_blocks, random_blocks, seed);
  }
};

// |p(i) - j| <= radius, or p(i) or j is one of the global tokens. Beltagy et
// al. 2020, section 3.1.
struct LongformerMask {
  int64_t radius = 0;
  std::vector<int64_t> global_tokens;
  Alignment alignment = Alignment::kUnspecified;
  auto Fields() const { return std::tie(radius, global_tokens, alignment); }
};

// j < sinks, or p(i) - left <= j <= p(i); j <= p(i) in any case. Xiao et al.
// 2024, section 3.2.
struct StreamingMask {
  int64_t sinks = 4;
  int64_t left = 0;
  Alignment alignment = Alignment::kUnspecified;
  auto Fields() const { return std::tie(sinks, left, alignment); }
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
