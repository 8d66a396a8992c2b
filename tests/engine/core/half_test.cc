#include "engine/core/half.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace attn {
namespace {

// A binary interchange format with 16 bits, by IEEE 754's own definition.
struct Format {
  int mantissa_bits;
  int bias;
  int exponent_limit;  // the exponent field of infinities and NaNs
};
constexpr Format kF16{10, 15, 31};
constexpr Format kBF16{7, 127, 255};

// (-1)^s 2^(max(e,1) - bias) (m / 2^p + [e > 0])
double ValueOf(uint16_t bits, const Format& format) {
  const int sign = bits >> 15;
  const int exponent = (bits & 0x7fff) >> format.mantissa_bits;
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  double value = 0;
  if (exponent == format.exponent_limit) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else {
    const double fraction = std::ldexp(mantissa, -format.mantissa_bits);
    value = std::ldexp(fraction + (exponent > 0 ? 1 : 0),
                       std::max(exponent, 1) - format.bias);
  }
  return sign != 0 ? -value : value;
}

// The nearest value of the format, ties to the even last digit: the distance
// of two neighbours is a power of two, and nearbyint() rounds to even.
double Rounded(double value, const Format& format) {
  if (std::isnan(value) || std::isinf(value) || value == 0) return value;
  const int min_exponent = 1 - format.bias;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const double step = std::ldexp(1.0, exponent - format.mantissa_bits);
  const double rounded = std::nearbyint(value / step) * step;
  const double beyond = std::ldexp(1.0, format.exponent_limit - format.bias);
  return std::fabs(rounded) >= beyond
             ? std::copysign(std::numeric_limits<double>::infinity(), value)
             : rounded;
}

void ExpectSame(double got, double want, float input) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << input;
    return;
  }
  EXPECT_EQ(got, want) << std::hexfloat << input;
  EXPECT_EQ(std::signbit(got), std::signbit(want)) << std::hexfloat << input;
}

void ExpectRounds(float input) {
  ExpectSame(ValueOf(ToF16(input), kF16), Rounded(input, kF16), input);
  ExpectSame(ValueOf(ToBF16(input), kBF16), Rounded(input, kBF16), input);
}

bool IsQuietNan(uint16_t bits, const Format& format) {
  return std::isnan(ValueOf(bits, format)) &&
         (bits >> (format.mantissa_bits - 1) & 1) == 1;
}

TEST(HalfTest, EveryPatternHasTheValueOfTheDefinition) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float f16 = FromF16(bits);
    ExpectSame(f16, ValueOf(bits, kF16), f16);
    const float bf16 = FromBF16(bits);
    ExpectSame(bf16, ValueOf(bits, kBF16), bf16);
  }
}

TEST(HalfTest, EveryPatternComesBack) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    // Signalling NaNs come back quiet: their top mantissa bit is set.
    const bool f16_nan = std::isnan(ValueOf(bits, kF16));
    EXPECT_EQ(ToF16(FromF16(bits)), f16_nan ? bits | 0x0200 : bits);
    const bool bf16_nan = std::isnan(ValueOf(bits, kBF16));
    EXPECT_EQ(ToBF16(FromBF16(bits)), bf16_nan ? bits | 0x0040 : bits);
  }
}

TEST(HalfTest, MidpointsOfNeighboursGoToTheEvenOne) {
  for (uint32_t i = 0; i < 0x7bff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const auto next = static_cast<uint16_t>(i + 1);
    const float middle = (FromF16(bits) + FromF16(next)) / 2;
    EXPECT_EQ(ToF16(middle), i % 2 == 0 ? bits : next);
    EXPECT_EQ(ToF16(std::nextafter(middle, 0.0F)), bits);
    EXPECT_EQ(ToF16(std::nextafter(middle, 1e9F)), next);
  }
  for (uint32_t i = 0x0080; i < 0x7f7f; ++i) {
    const uint32_t middle = (i << 16) | 0x8000u;
    const uint32_t even = i % 2 == 0 ? i : i + 1;
    EXPECT_EQ(ToBF16(std::bit_cast<float>(middle)), even);
    EXPECT_EQ(ToBF16(std::bit_cast<float>(middle - 1)), i);
    EXPECT_EQ(ToBF16(std::bit_cast<float>(middle + 1)), i + 1);
  }
}

TEST(HalfTest, RandomBitPatternsRoundAsDoubleArithmeticDoes) {
  std::mt19937 random(20170612);
  for (int i = 0; i < 2'000'000; ++i) {
    ExpectRounds(std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
}

TEST(HalfTest, RandomValuesInF16RangeRoundAsDoubleArithmeticDoes) {
  // Whole-range patterns rarely fall among binary16's 2^-26 to 2^17.
  std::mt19937 random(7);
  std::uniform_int_distribution<uint32_t> magnitude(0x32000000u, 0x48000000u);
  for (int i = 0; i < 2'000'000; ++i) {
    const auto sign = static_cast<uint32_t>(random()) & 0x80000000u;
    ExpectRounds(std::bit_cast<float>(magnitude(random) | sign));
  }
}

TEST(HalfTest, TheEdgesOfTheRange) {
  EXPECT_EQ(ToF16(65504.0F), 0x7bff);
  EXPECT_EQ(ToF16(std::nextafter(65520.0F, 0.0F)), 0x7bff);
  EXPECT_EQ(ToF16(65520.0F), 0x7c00);
  EXPECT_EQ(ToF16(-65520.0F), 0xfc00);
  // Half of the smallest subnormal ties to zero; a little more does not.
  EXPECT_EQ(ToF16(0x1p-25F), 0x0000);
  EXPECT_EQ(ToF16(-0x1p-25F), 0x8000);
  EXPECT_EQ(ToF16(std::nextafter(0x1p-25F, 1.0F)), 0x0001);
  // The largest float is nearer to bfloat16's infinity.
  EXPECT_EQ(ToBF16(std::numeric_limits<float>::max()), 0x7f80);
  for (const float value : {0.0F, -0.0F, std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::denorm_min(),
                            -std::numeric_limits<float>::denorm_min()}) {
    ExpectRounds(value);
  }
}

TEST(HalfTest, NanStaysAQuietNanWhateverItsPayload) {
  for (const uint32_t bits :
       {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu,
        0x7f801fffu, 0x7f80ffffu}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(IsQuietNan(ToF16(nan), kF16)) << std::hex << bits;
    EXPECT_TRUE(IsQuietNan(ToBF16(nan), kBF16)) << std::hex << bits;
  }
}

}  // namespace
}  // namespace attn
