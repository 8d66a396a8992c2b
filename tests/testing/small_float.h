// Floating-point formats by their definition: any split of the bits into
// exponent and fraction. Shares nothing with engine/.
#pragma once

#include <cstdint>

namespace attn::oracle {

// IEEE 754 binary interchange formats with a sign bit.
struct FloatFormat {
  int exponent_bits;
  int fraction_bits;
};

inline constexpr FloatFormat kBinary16 = {5, 10};
inline constexpr FloatFormat kBFloat16 = {8, 7};

double Decode(uint16_t bits, FloatFormat format);
// To nearest, ties to even.
uint16_t Encode(double value, FloatFormat format);

}  // namespace attn::oracle
