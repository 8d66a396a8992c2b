// Functions of each element of a row of floats by itself, on the widest vectors
// of this machine.
//
// -infinity marks an excluded key and becomes 0; other elements are no NaN.
// Bits depend on an element's value, and on the machine's vectors. Thread-safe:
// pure.
#pragma once

#include <cstdint>

namespace attn {

// row[i] = 1 / (1 + exp(-(row[i] + bias))) / divisor; 0 below the smallest
// normal number.
void SigmoidRow(float* row, int64_t count, float bias, float divisor);

// row[i] = max(row[i], 0) ^ power / divisor; power > 0.
void ReluRow(float* row, int64_t count, double power, float divisor);

// sum of max(row[i], 0), in float over 512 elements and in double from there.
double SumPositive(const float* row, int64_t count);

}  // namespace attn
