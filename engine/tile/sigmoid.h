// The logistic function and its slope.
#pragma once

#include <cmath>

namespace attn {

// 1 / (1 + exp(-x)), without the overflow that exp(-x) has for large negative
// x.
template <typename T>
T SigmoidOf(T x) {
  const T e = std::exp(-std::abs(x));
  return (x < 0 ? e : T{1}) / (1 + e);
}

// Its derivative: y (1 - y) without the digits that 1 - y loses for large x.
inline double SigmoidSlope(double x) {
  const double e = std::exp(-std::abs(x));
  return e / ((1 + e) * (1 + e));
}

// The derivative of tanh, 1 - tanh(x)^2 = 4 s'(2 x) for the slope s' above.
inline double TanhSlope(double x) { return 4 * SigmoidSlope(2 * x); }

}  // namespace attn
