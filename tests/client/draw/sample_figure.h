// Figures to lay out and to draw.
#pragma once

#include <cstdint>

#include "client/draw/attention_figure.h"

namespace attn {

struct SampleShape {
  int groups = 1;
  int64_t queries = 4;
  int64_t keys = 4;
  int64_t query_step = 1;
  int64_t key_step = 1;
  bool tokens = false;
};

// Causal: logits count down from 3 on each diagonal, and weights are of 0 to 1;
// the last key of the first row is the heaviest of all.
AttentionFigure SampleFigure(const SampleShape& shape);

}  // namespace attn
