// The feature maps of linear attention, in double and on the widest vectors of
// this machine. Thread-safe: pure.
#pragma once

#include <cstdint>

#include "engine/core/normalizer_spec.h"

namespace attn {

// row[i] = phi(row[i]). NaN stays NaN, but for relu, which makes it 0.
void FeatureRow(FeatureMap map, double* row, int64_t count);

// row[i] = exp(row[i]), within 2 ulp.
void ExpRow(double* row, int64_t count);

}  // namespace attn
