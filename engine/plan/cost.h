// What a problem costs, before anything is computed.
#pragma once

#include <cstdint>

#include "engine/core/problem.h"

namespace attn {

// Query-key pairs that the masks allow, over all batch entries and query heads.
// Masks that are data (boolean tensors, lengths) count as all allowed.
double VisiblePairs(const Problem& problem);

struct ComputeCost {
  // Floating-point operations of the two products over the visible pairs, a
  // multiplication and an addition counted as two. The second product is left
  // out if no output is asked for.
  double flops = 0;
  // The same, but that a pair counts for kLeastPairWidth multiplications at
  // least.
  double work = 0;
};
ComputeCost CostOf(const Problem& problem);
inline double Flops(const Problem& problem) { return CostOf(problem).flops; }

// Bytes of the tensors read and written, row statistics left out.
int64_t TensorBytes(const Problem& problem);

}  // namespace attn
