#include "engine/core/half.h"

namespace attn {
namespace {

constexpr uint32_t kF32SignMask = 0x80000000u;
constexpr uint32_t kF32Infinity = 0x7f800000u;
// Smallest float magnitude that rounds to infinity in binary16: 65520.
constexpr uint32_t kF16OverflowBits = 0x477ff000u;
// Smallest normal binary16, 2^-14, as float bits.
constexpr uint32_t kF16MinNormalBits = 0x38800000u;
// Difference of the exponent biases, 127 - 15, at the float's exponent.
constexpr uint32_t kBiasShift = 112u << 23;
constexpr float kTwoTo24 = 16777216.0F;

}  // namespace

uint16_t ToBF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & ~kF32SignMask) > kF32Infinity) {
    return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  }
  const uint32_t rounding = 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>((bits + rounding) >> 16);
}

float FromF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) / kTwoTo24;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 0x1fu) {
    return std::bit_cast<float>(sign | kF32Infinity | (mantissa << 13));
  }
  return std::bit_cast<float>(sign | ((exponent << 23) + kBiasShift) |
                              (mantissa << 13));
}

uint16_t ToF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits & kF32SignMask) >> 16);
  const uint32_t magnitude = bits & ~kF32SignMask;
  if (magnitude > kF32Infinity) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= kF16OverflowBits) {
    return static_cast<uint16_t>(sign | 0x7c00u);
  }
  if (magnitude < kF16MinNormalBits) {
    // Adding 0.5 aligns the mantissa so that the hardware's own rounding to
    // nearest even leaves the subnormal in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounding = 0x0fffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign |
                               ((magnitude - kBiasShift + rounding) >> 13));
}

}  // namespace attn
