// What is added to the logits. uint32_t members are indices into
// AttentionArgs::inputs.
#pragma once

#include <cstdint>
#include <tuple>
#include <variant>
#include <vector>

#include "engine/core/spec_value.h"

namespace attn {

// inputs[input], broadcast to [B, Hq, Sq, Sk]. An element of -inf excludes.
struct DenseBias {
  uint32_t input = 0;
  auto Fields() const { return std::tie(input); }
};

// -slope[h] * |i + Sk - Sq - j|. Press et al. 2022, section 3. Empty slopes:
// the published ones.
struct AlibiBias {
  std::vector<double> slopes;
  auto Fields() const { return std::tie(slopes); }
};

// table[h, clip(j - p(i), -n, n) + n] with p(i) = i + Sk - Sq; the table is
// [Hq, 2n + 1] or [1, 2n + 1]. Shaw et al. 2018, section 3.2.
struct RelativeTableBias {
  uint32_t table = 0;
  auto Fields() const { return std::tie(table); }
};

// table[bucket(j - p(i)), h] with p(i) = i + Sk - Sq; the table is
// [num_buckets, Hq]. Raffel et al. 2020, section 2.1.
struct T5Bias {
  uint32_t table = 0;
  bool bidirectional = true;
  int64_t max_distance = 128;
  auto Fields() const { return std::tie(table, bidirectional, max_distance); }
};

// 16 * sigmoid(W2 relu(W1 c + b1)) of the log-spaced offset c of two cells of
// a window of height x width tokens (Sq = Sk = height * width): continuous
// position bias. W1 [2, n], b1 [n], W2 [n, Hq]. Liu et al. 2022, section 3.3.
struct ContinuousPositionBias {
  int64_t height = 1;
  int64_t width = 1;
  uint32_t hidden_weight = 0;
  uint32_t hidden_bias = 0;
  uint32_t output_weight = 0;
  auto Fields() const {
    return std::tie(height, width, hidden_weight, hidden_bias, output_weight);
  }
};

// values[h]; the input is [Hq].
struct ConstantBias {
  uint32_t values = 0;
  auto Fields() const { return std::tie(values); }
};

using BiasSpec = std::variant<DenseBias, AlibiBias, RelativeTableBias, T5Bias,
                              ContinuousPositionBias, ConstantBias>;

}  // namespace attn
