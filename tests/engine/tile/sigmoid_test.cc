#include "engine/tile/sigmoid.h"

#include <cmath>

#include "gtest/gtest.h"

namespace attn {
namespace {

void ExpectNear(double got, long double want) {
  const auto expected = static_cast<double>(want);
  EXPECT_NEAR(got, expected, 1e-14 * std::abs(expected));
}

TEST(Sigmoid, FarFromZeroSlopesKeepTheirDigits) {
  for (const double magnitude : {0.0, 0.1, 1.0, 20.0, 36.0, 40.0, 300.0}) {
    for (const double x : {magnitude, -magnitude}) {
      // Of the even function 1 / (2 cosh(x / 2))^2, which cancels nowhere.
      const long double cosh = std::cosh(static_cast<long double>(x) / 2);
      ExpectNear(SigmoidSlope(x), 1 / (4 * cosh * cosh));
      const long double wide = std::cosh(static_cast<long double>(x));
      ExpectNear(TanhSlope(x), 1 / (wide * wide));
      ExpectNear(SigmoidOf(x),
                 1 / (1 + std::exp(-static_cast<long double>(x))));
    }
  }
}

TEST(Sigmoid, NothingOverflowsAtTheEnds) {
  EXPECT_EQ(SigmoidOf(-1e300), 0);
  EXPECT_EQ(SigmoidOf(1e30F), 1);
  EXPECT_EQ(SigmoidSlope(1e300), 0);
  EXPECT_EQ(TanhSlope(-1e300), 0);
}

}  // namespace
}  // namespace attn
