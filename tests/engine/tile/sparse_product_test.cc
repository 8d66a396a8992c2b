#include "engine/tile/sparse_product.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

// A product whose left operand has about `share` elements that are not 0.
struct Operands {
  Operands(int64_t rows, int64_t columns, int64_t inner, double share)
      : b_stride(RoundUpToColumnUnit(columns) + 3), a_stride(inner + 5) {
    std::mt19937 random(17);
    std::normal_distribution<float> draw;
    std::bernoulli_distribution keep(share);
    const auto fill = [&](std::vector<float>& to, int64_t count) {
      to.resize(static_cast<size_t>(count));
      for (float& x : to) x = draw(random);
    };
    fill(a, rows * a_stride);
    for (float& x : a) x = keep(random) ? x : 0.0F;
    fill(b, inner * b_stride);
    fill(c, rows * b_stride);
    product = {.rows = rows,
               .columns = columns,
               .inner = inner,
               .a = a.data(),
               .a_stride = a_stride,
               .b = b.data(),
               .b_stride = b_stride,
               .c = c.data(),
               .c_stride = b_stride};
  }

  int64_t b_stride;
  int64_t a_stride;
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> c;
  TileProduct product;
};

class SparseProductTest : public OnEveryTarget {};
ATTN_ON_EVERY_TARGET(SparseProductTest);

void ExpectSum(int64_t rows, int64_t columns, int64_t inner, double share) {
  Operands operands(rows, columns, inner, share);
  const std::vector<float> before = operands.c;
  AddSparseProduct(operands.product);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < columns; ++n) {
      const auto at = static_cast<size_t>(r * operands.b_stride + n);
      double want = static_cast<double>(before[at]);
      for (int64_t k = 0; k < inner; ++k) {
        want +=
            static_cast<double>(
                operands.a[static_cast<size_t>(r * operands.a_stride + k)]) *
            static_cast<double>(
                operands.b[static_cast<size_t>(k * operands.b_stride + n)]);
      }
      ASSERT_NEAR(operands.c[at], want, 1e-4)
          << rows << " " << columns << " " << inner << " at " << r << " " << n;
    }
  }
}

TEST_P(SparseProductTest, EveryExtentIsThatOfTheSumInDouble) {
  for (const int64_t columns : {1, 16, 17, 48, 64, 80, 130}) {
    for (const int64_t inner : {0, 1, 15, 16, 33, 512, 700}) {
      ExpectSum(3, columns, inner, 0.2);
    }
  }
  for (const double share : {0.0, 0.01, 1.0}) ExpectSum(7, 64, 530, share);
}

TEST_P(SparseProductTest, BitsAreThoseOfTheDenseProduct) {
  for (const double share : {0.0, 0.02, 0.2, 0.9}) {
    for (const int64_t rows : {1, 6, 13, 70}) {
      Operands sparse(rows, 80, 300, share);
      Operands dense = sparse;
      dense.product.a = dense.a.data();
      dense.product.b = dense.b.data();
      dense.product.c = dense.c.data();
      Operands chosen = dense;
      chosen.product.a = chosen.a.data();
      chosen.product.b = chosen.b.data();
      chosen.product.c = chosen.c.data();
      AddSparseProduct(sparse.product);
      const std::vector<float> ones(static_cast<size_t>(rows), 1);
      ScaleAndMultiplyTile(dense.product, ones.data());
      AddProduct(chosen.product);
      ASSERT_EQ(sparse.c, dense.c) << share << " " << rows;
      ASSERT_EQ(chosen.c, dense.c) << share << " " << rows;
    }
  }
}

TEST_P(SparseProductTest, AQuarterIsSparseAndMoreIsNot) {
  for (const int64_t inner : {4, 16, 64, 68}) {
    Operands operands(4, 16, inner, 0);
    const int64_t quarter = inner;
    for (int64_t i = 0; i < quarter; ++i) {
      EXPECT_TRUE(IsSparse(operands.product));
      const int64_t at = i / inner * operands.a_stride + i % inner;
      operands.a[static_cast<size_t>(at)] = 1;
    }
    EXPECT_TRUE(IsSparse(operands.product));
    operands.a[static_cast<size_t>(operands.a_stride)] = 1;
    EXPECT_FALSE(IsSparse(operands.product));
  }
}

TEST_P(SparseProductTest, NaNIsNotPassedOver) {
  Operands operands(2, 16, 40, 0);
  operands.a[39] = std::numeric_limits<float>::quiet_NaN();
  AddSparseProduct(operands.product);
  for (size_t n = 0; n < 16; ++n) {
    EXPECT_TRUE(std::isnan(operands.c[n]));
    EXPECT_FALSE(
        std::isnan(operands.c[static_cast<size_t>(operands.b_stride) + n]));
  }
}

}  // namespace
}  // namespace attn
