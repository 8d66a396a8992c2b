// Scalar conversions of the 16-bit float types. Bulk conversions are in
// engine/tile.
#pragma once

#include <bit>
#include <cstdint>

namespace attn {

// bfloat16 bits to float: exact.
inline float FromBF16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Float to bfloat16 bits, to nearest even; a NaN stays a quiet NaN.
uint16_t ToBF16(float value);

// binary16 bits to float: exact, subnormals included.
float FromF16(uint16_t bits);

// Float to binary16 bits, to nearest even; overflows to infinity; a NaN stays
// a quiet NaN.
uint16_t ToF16(float value);

}  // namespace attn
