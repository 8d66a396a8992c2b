#include "tests/testing/small_float.h"

#include <cmath>

#include "gtest/gtest.h"

namespace attn::oracle {
namespace {

TEST(SmallFloatTest, DecodesTheStandardsExamples) {
  EXPECT_EQ(Decode(0x3C00, kBinary16), 1.0);
  EXPECT_EQ(Decode(0x7BFF, kBinary16), 65504.0);
  EXPECT_EQ(Decode(0x0001, kBinary16), 0x1p-24);
  EXPECT_EQ(Decode(0x3F80, kBFloat16), 1.0);
  EXPECT_EQ(Decode(0xC040, kBFloat16), -3.0);
  EXPECT_TRUE(std::isinf(Decode(0x7F80, kBFloat16)));
}

TEST(SmallFloatTest, EveryNumberSurvivesTheRoundTrip) {
  for (const FloatFormat format : {kBinary16, kBFloat16}) {
    for (int bits = 0; bits < 0x10000; ++bits) {
      const double value = Decode(static_cast<uint16_t>(bits), format);
      if (std::isnan(value)) continue;
      ASSERT_EQ(Encode(value, format), bits);
    }
  }
}

TEST(SmallFloatTest, RoundsTiesToEvenAndCarries) {
  EXPECT_EQ(Encode(1 + 0x1p-11, kBinary16), 0x3C00);
  EXPECT_EQ(Encode(1 + 3 * 0x1p-11, kBinary16), 0x3C02);
  EXPECT_EQ(Encode(2 - 0x1p-12, kBinary16), 0x4000);
  EXPECT_EQ(Encode(65520, kBinary16), 0x7C00);
}

}  // namespace
}  // namespace attn::oracle
