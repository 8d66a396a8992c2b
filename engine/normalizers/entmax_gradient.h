// The way back through a sparse softmax of a row.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/normalizers/row_normalizer.h"

namespace attn {

// dx = s (g - sum s g / sum s) with s = p^(2 - alpha) on the support (Peters et
// al. 2019, section 3.3).
inline void EntmaxBackwardRow(const ForwardRow& row, double alpha,
                              double* gradient) {
  double sum = 0;
  double weighted = 0;
  for (int64_t j = 0; j < row.count; ++j) {
    if (row.weights[j] <= 0) continue;
    const double s = std::pow(row.weights[j], 2 - alpha);
    sum += s;
    weighted += s * gradient[j];
  }
  for (int64_t j = 0; j < row.count; ++j) {
    gradient[j] = row.weights[j] <= 0 ? 0
                                      : std::pow(row.weights[j], 2 - alpha) *
                                            (gradient[j] - weighted / sum);
  }
}

}  // namespace attn
