// The operations of a program on arrays of numbers.
//
// Float and double alike run on the widest vectors of this machine where an
// operation has a vector form. A result depends on its own operands alone, not
// on its place. Bools are 0 and 1. Thread-safe: pure.
#pragma once

#include <cstdint>

#include "engine/programs/expression.h"

namespace attn {

// Arrays are that many numbers, or a multiple of it.
inline constexpr int64_t kProgramLanes = 16;

// out[i] = operation(operands[0][i], ...) for an operation that is no leaf and
// no table; `out` may be one of the operands.
//
// x % y has the sign of y (floored), 0 none. min, max: NaN if either is; the
// first of two that are equal. Comparisons with NaN are false, != is true.
void ApplyOperation(Operation operation, const float* const* operands,
                    int64_t count, float* out);
void ApplyOperation(Operation operation, const double* const* operands,
                    int64_t count, double* out);

}  // namespace attn
