// Sparse softmaxes of rows of floats, on the widest vectors of this machine.
//
// Rows are finite but for -infinity, which marks an excluded key; `max` is the
// largest element. Thresholds are sought in double until they are exact to its
// last digits. Bits depend on content and length, and on the machine's vectors.
// Thread-safe: pure.
#pragma once

#include <cstdint>

namespace attn {

// row = [row - tau]_+ with the tau that makes the sum 1 (Martins and Astudillo
// 2016).
void SparsemaxRow(float* row, int64_t count, float max);

// row = [(alpha - 1) row - tau]_+ ^ (1 / (alpha - 1)) with the tau that makes
// the sum 1, for 1 < alpha <= 2 (Peters et al. 2019, equation 5).
void EntmaxRow(float* row, int64_t count, float max, double alpha);

// Copies the elements above `bound` to `to`, in order, as long as they are at
// most `room`, and says how many there are; nothing is promised of `to` if
// there are more. Room beyond the last element may be written over.
int64_t CopyAbove(const float* row, int64_t count, float bound, float* to,
                  int64_t room);

}  // namespace attn
