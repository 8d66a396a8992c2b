// Scores with a hidden layer: v . f(q' + k') + bias of prepared rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/scores/projection.h"
#include "engine/scores/score.h"

namespace attn {

// Where one side's projection lies; absent: the row is its own projection.
// `head_axis` says whether the weight has a leading head axis.
struct SideWeight {
  std::optional<uint32_t> input;
  int64_t offset = 0;
  bool head_axis = false;
};

struct HiddenLayer {
  SideWeight query;
  SideWeight key;
  std::optional<uint32_t> query_bias;  // [a] or [Hq, a]
  uint32_t v = 0;                      // [a] or [Hq, a]
  int64_t width = 0;                   // a
  Activation activation = Activation::kTanh;
  double bias = 0;
};

std::unique_ptr<Score> MakeHiddenLayerScore(const HiddenLayer& layer,
                                            const AttentionShape& shape);

const char* ActivationName(Activation activation);

}  // namespace attn
