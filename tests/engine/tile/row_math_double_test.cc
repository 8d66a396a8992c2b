// The double overloads, which only the reference path uses.
#include <cmath>
#include <limits>
#include <vector>

#include "engine/tile/row_math.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using testing::ElementsAre;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = std::numeric_limits<double>::max();

TEST(RowMathDouble, ScanSeparatesExcludedNaNAndNumbers) {
  const double row[] = {-kInf, 2, kNaN, -3};
  const RowRange<double> range = ScanRow(row, 4);
  EXPECT_EQ(range.visible, 3);
  EXPECT_EQ(range.min, -3);
  EXPECT_EQ(range.max, 2);
  EXPECT_TRUE(range.has_nan);
  EXPECT_EQ(ScanRow(row, 1).visible, 0);
  EXPECT_EQ(RowMax(row, 4), 2);
  EXPECT_EQ(RowMax(row, 0), -kInf);
  EXPECT_EQ(FirstMaxIndex(row, 4), 1);
  EXPECT_EQ(CountNonFinite(row, 4), 2);
}

TEST(RowMathDouble, ExpSumsLeaveExcludedElementsOut) {
  double row[] = {1, -kInf, 0, -1e9};
  const ExpSums sums = ExpRow(row, 4, 1);
  EXPECT_DOUBLE_EQ(sums.sum, 1 + std::exp(-1));
  EXPECT_DOUBLE_EQ(sums.weighted, -std::exp(-1));
  EXPECT_THAT(row, ElementsAre(1, 0, std::exp(-1.0), 0));
}

TEST(RowMathDouble, FiniteNumbersSaturateAndInfinitiesStay) {
  double row[] = {-kLargest, -kInf, 1};
  const double other[] = {-kLargest, 1, 2};
  AddRow(row, other, 3);
  EXPECT_THAT(row, ElementsAre(-kLargest, -kInf, 3));
  DivideRow(row, 3, 0.5);
  EXPECT_THAT(row, ElementsAre(-kLargest, -kInf, 6));
  ScaleRow(row + 2, 1, 2);
  EXPECT_EQ(row[2], 12);
  DistanceRow(row, 3, 1, kLargest);
  EXPECT_THAT(row, ElementsAre(kLargest, 0, kLargest));
  DistanceRow(row, 3, 5, -kLargest);
  EXPECT_THAT(row, ElementsAre(-kLargest, -kLargest, -kLargest));
}

TEST(RowMathDouble, SoftcapDotAndExcludeFollowTheirFormulas) {
  double row[] = {3, -3, kInf, kNaN};
  const uint8_t allowed[] = {1, 1, 1, 0};
  SoftcapRow(row, 4, 2);
  ExcludeRow(row, allowed, 4);
  EXPECT_THAT(row,
              ElementsAre(2 * std::tanh(1.5), -2 * std::tanh(1.5), 2, -kInf));
  const double a[] = {1, 2, 3};
  const double b[] = {4, 5, 6};
  EXPECT_EQ(Dot(a, b, 3), 32);
}

}  // namespace
}  // namespace attn
