// Part of the scores of a call.
#pragma once

#include <cstdint>
#include <limits>

namespace attn {

// Indices [begin, end) of one axis; the default is all of them.
struct AxisRange {
  int64_t begin = 0;
  int64_t end = std::numeric_limits<int64_t>::max();

  bool Holds(int64_t index) const { return begin <= index && index < end; }
  int64_t size() const { return end - begin; }
};

// Part of [B, Hq, Sq, Sk]; the default is the whole.
struct ScoreWindow {
  AxisRange batch;
  AxisRange head;
  AxisRange query;
  AxisRange key;
};

}  // namespace attn
