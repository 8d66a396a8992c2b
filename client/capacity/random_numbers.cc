#include "client/capacity/random_numbers.h"

#include <cmath>
#include <numbers>

namespace attn {

double RandomNumbers::Uniform() {
  // 53 bits, as many as a double has.
  return static_cast<double>((bits_() >> 11U) + 1) * 0x1p-53;
}

int64_t RandomNumbers::Below(int64_t count) {
  // The high word of a product: off by less than 2^-32 for each number.
  constexpr unsigned kHalf = 32;
  return static_cast<int64_t>(
      ((bits_() >> kHalf) * static_cast<uint64_t>(count)) >> kHalf);
}

double RandomNumbers::Exponential() { return -std::log(Uniform()); }

double RandomNumbers::LogNormal(double variation) {
  if (variation <= 0) return 1;
  const double spread = std::log(1 + variation);
  // Box and Muller. One after the other: the order of operands is a compiler's.
  const double radius = std::sqrt(-2 * std::log(Uniform()));
  const double normal = radius * std::cos(2 * std::numbers::pi * Uniform());
  return std::exp(normal * std::sqrt(spread) - spread / 2);
}

}  // namespace attn
