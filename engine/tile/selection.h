// The largest elements of rows of floats, on the widest vectors of this
// machine.
//
// Rows hold no NaN; -infinity is the smallest element of all. `scratch` is as
// long as the row. Results, and bits, depend on content alone. Thread-safe:
// pure.
#pragma once

#include <cstdint>

namespace attn {

// Which elements are kept: `count` of those that are at least `value`, which is
// the smallest among them; the first of equal ones.
struct Cutoff {
  float value = 0;
  int64_t count = 0;
};

// Of the k largest elements, 1 <= k <= count.
Cutoff LargestByCount(const float* row, int64_t count, int64_t k,
                      float* scratch);

// Of the fewest largest elements x whose sum of exp(x - max) is at least
// `share` of that of all; `max` is the largest element, finite, 0 < share < 1.
struct WeightShare {
  float max = 0;
  double share = 0;
};
Cutoff LargestByWeight(const float* row, int64_t count, WeightShare share,
                       float* scratch);

// Sets what is not kept to -infinity; NaN stays.
void KeepLargest(float* row, int64_t count, Cutoff cutoff);

}  // namespace attn
