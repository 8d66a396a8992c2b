// Comparison of tensors, with a report that names the worst element.
#pragma once

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace attn::oracle {

// abs(got - want) <= absolute + relative * abs(want)
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// Every element within the tolerance; infinities must match and NaN must stand
// where it is wanted, and nowhere else.
::testing::AssertionResult Close(const std::vector<double>& got,
                                 const std::vector<double>& want,
                                 Tolerance tolerance);

}  // namespace attn::oracle
