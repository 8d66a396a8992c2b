// Masks that published models have: patterns of positions. The other masks and
// MaskSpec are in mask_spec.h.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "engine/core/alignment.h"
#include "engine/core/spec_value.h"

namespace attn {

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

}  // namespace attn
