// Where the ticks of an axis go, and what they say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attn {

// 1, 2 or 5 times a power of ten: the least that is not below `step` > 0.
double NiceStep(double step);

struct ValueTick {
  double value = 0;
  std::string label;
};

// At most `most` >= 2 multiples of a nice step within [low, high], both finite
// and low < high.
std::vector<ValueTick> ValueTicks(double low, double high, int most);

// The multiples of `step` among `count` indices from `begin` on.
std::vector<int64_t> IndexTicks(int64_t begin, int64_t count, int64_t step);

}  // namespace attn
