#include "engine/tile/strided_products.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

constexpr float kOld = 3;

class StridedProductsTest : public OnEveryTarget {
 protected:
  // Numbers between -1 and 1.
  std::vector<float> Random(int64_t count) {
    std::uniform_real_distribution<float> draw(-1, 1);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& x : values) x = draw(random_);
    return values;
  }

  std::mt19937 random_{3};
};
ATTN_ON_EVERY_TARGET(StridedProductsTest);

// Every tail of rows and of columns, either way round, with gaps between rows.
TEST_P(StridedProductsTest, EveryExtentGivesItsSumsAndTouchesNothingElse) {
  constexpr int64_t kGap = 3;
  for (const int64_t inner : {0, 1, 5, 64}) {
    for (const int64_t columns : {16, 32, 48, 64, 80}) {
      for (int64_t rows = 0; rows <= 14; ++rows) {
        for (const bool transposed : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << rows << " x " << columns << " over " << inner);
          const int64_t left_stride = (transposed ? rows : inner) + kGap;
          const std::vector<float> left =
              Random(left_stride * (transposed ? inner : rows) + 1);
          const std::vector<float> right = Random(inner * (columns + kGap) + 1);
          const int64_t stride = columns + kGap;
          std::vector<float> set(static_cast<size_t>(rows * stride), kOld);
          std::vector<float> added = set;
          const ProductExtents extents{rows, columns, inner};
          const LeftOperand operand =
              transposed ? LeftOperand{left.data(), 1, left_stride}
                         : LeftOperand{left.data(), left_stride, 1};
          MultiplyStrided(extents, operand, {right.data(), columns + kGap},
                          {set.data(), stride, 0.5F, false});
          MultiplyStrided(extents, operand, {right.data(), columns + kGap},
                          {added.data(), stride, 0.5F, true});
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < stride; ++c) {
              const auto at = static_cast<size_t>(r * stride + c);
              if (c >= columns) {
                ASSERT_EQ(set[at], kOld);
                ASSERT_EQ(added[at], kOld);
                continue;
              }
              double sum = 0;
              for (int64_t i = 0; i < inner; ++i) {
                const auto from = static_cast<size_t>(r * operand.row_stride +
                                                      i * operand.inner_stride);
                sum += static_cast<double>(left[from]) *
                       right[static_cast<size_t>(i * (columns + kGap) + c)];
              }
              ASSERT_NEAR(set[at], 0.5 * sum, 1e-5);
              ASSERT_NEAR(added[at], kOld + 0.5 * sum, 1e-5);
            }
          }
        }
      }
    }
  }
}

// What a row of the result is does not depend on how many there are.
TEST_P(StridedProductsTest, BitsOfAnElementDependOnItsRowAndColumnAlone) {
  constexpr int64_t kRows = 13;
  constexpr int64_t kColumns = 80;
  constexpr int64_t kInner = 33;
  const std::vector<float> left = Random(kRows * kInner);
  const std::vector<float> right = Random(kInner * kColumns);
  std::vector<float> all(kRows * kColumns);
  MultiplyStrided({kRows, kColumns, kInner}, {left.data(), kInner, 1},
                  {right.data(), kColumns}, {all.data(), kColumns});
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kColumns; c += kColumnUnit) {
      std::vector<float> one(kColumnUnit);
      MultiplyStrided({1, kColumnUnit, kInner},
                      {left.data() + r * kInner, kInner, 1},
                      {right.data() + c, kColumns}, {one.data(), kColumnUnit});
      for (int64_t i = 0; i < kColumnUnit; ++i) {
        ASSERT_EQ(one[static_cast<size_t>(i)],
                  all[static_cast<size_t>(r * kColumns + c + i)]);
      }
    }
  }
}

TEST_P(StridedProductsTest, ARowOfNaNSpoilsNoOther) {
  std::vector<float> left = Random(7 * 5);
  left[2 * 5 + 1] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> right = Random(5 * 16);
  std::vector<float> result(7 * 16);
  MultiplyStrided({7, 16, 5}, {left.data(), 5, 1}, {right.data(), 16},
                  {result.data(), 16});
  for (size_t i = 0; i < result.size(); ++i) {
    EXPECT_EQ(std::isnan(result[i]), i / 16 == 2);
  }
}

}  // namespace
}  // namespace attn
