#include "tests/testing/small_float.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::oracle {

double Decode(uint16_t bits, FloatFormat format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int top = (1 << format.exponent_bits) - 1;
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const int exponent = bits >> format.fraction_bits & top;
  const double sign = (bits >> 15) != 0 ? -1 : 1;
  if (exponent == top) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const int significand =
      exponent == 0 ? fraction : fraction + (1 << format.fraction_bits);
  return sign * std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias -
                                            format.fraction_bits);
}

uint16_t Encode(double value, FloatFormat format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int infinity = ((1 << format.exponent_bits) - 1)
                       << format.fraction_bits;
  const int sign = std::signbit(value) ? 1 << 15 : 0;
  if (std::isnan(value)) return static_cast<uint16_t>(infinity + 1);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
  if (value == 0) return static_cast<uint16_t>(sign);
  // Steps of the last place of the value's binade; subnormals share one.
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const auto steps = static_cast<int64_t>(std::nearbyint(
      std::ldexp(std::fabs(value), format.fraction_bits - exponent)));
  // A carry out of the fraction moves to the next exponent by itself.
  const int64_t hidden = int64_t{1} << format.fraction_bits;
  const int64_t biased = exponent + bias - 1;
  const int64_t bits = biased * hidden + steps;
  return static_cast<uint16_t>(sign | (bits > infinity ? infinity : bits));
}

}  // namespace attn::oracle
