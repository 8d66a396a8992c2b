#include "engine/tile/tile_products.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

// Every number of rows of a register tile with what is left of another, and
// beyond the rows that are taken at once.
constexpr int64_t kRows[] = {1, 2, 3, 4, 5, 6, 7, 11, 12, 64, 65, 71};
constexpr int64_t kColumns[] = {1, 15, 16, 17, 32, 48, 64, 80, 130};
// Below, at and beyond a block of b.
constexpr int64_t kInner[] = {0, 1, 33, 512, 515};
constexpr float kUntouched = -77;

class TileProductsTest : public OnEveryTarget {
 protected:
  std::vector<float> Random(int64_t count) {
    std::uniform_real_distribution<float> draw(-1, 1);
    std::vector<float> numbers(static_cast<size_t>(count));
    for (float& x : numbers) x = draw(random_);
    return numbers;
  }

  struct Operands {
    TileProduct product;
    std::vector<float> a, b, c, factors;
  };

  // Rows with gaps of a prime number of elements between them.
  Operands Make(int64_t rows, int64_t columns, int64_t inner) {
    Operands made;
    const int64_t wide = RoundUpToColumnUnit(columns);
    made.product = {.rows = rows,
                    .columns = columns,
                    .inner = inner,
                    .a_stride = inner + 3,
                    .b_stride = wide + 5,
                    .c_stride = wide + 7};
    made.a = Random(rows * made.product.a_stride);
    made.b = Random((inner + 1) * made.product.b_stride);
    made.c = Random(rows * made.product.c_stride);
    made.factors = Random(rows);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t n = wide; n < made.product.c_stride; ++n) {
        made.c[static_cast<size_t>(r * made.product.c_stride + n)] = kUntouched;
      }
    }
    made.product.a = made.a.data();
    made.product.b = made.b.data();
    made.product.c = made.c.data();
    return made;
  }

  // c is factor times what it was, plus the products' sum.
  static void Expect(const Operands& got, const std::vector<float>& before,
                     bool scaled) {
    const TileProduct& p = got.product;
    for (int64_t r = 0; r < p.rows; ++r) {
      for (int64_t n = 0; n < p.c_stride; ++n) {
        const auto at = static_cast<size_t>(r * p.c_stride + n);
        if (n >= RoundUpToColumnUnit(p.columns)) {
          ASSERT_EQ(got.c[at], kUntouched) << "row " << r << ", column " << n;
        }
        if (n >= p.columns) continue;
        double want = 0;
        if (scaled) {
          want = static_cast<double>(got.factors[static_cast<size_t>(r)]) *
                 static_cast<double>(before[at]);
        }
        for (int64_t k = 0; k < p.inner; ++k) {
          want += static_cast<double>(p.a[r * p.a_stride + k]) *
                  static_cast<double>(p.b[k * p.b_stride + n]);
        }
        ASSERT_NEAR(got.c[at], want,
                    4e-6 * std::sqrt(static_cast<double>(p.inner + 1)))
            << p.rows << " x " << p.columns << " x " << p.inner << " at " << r
            << ", " << n;
      }
    }
  }

  std::mt19937 random_{5};
};
ATTN_ON_EVERY_TARGET(TileProductsTest);

TEST_P(TileProductsTest, MultiplyIsTheSumOfProducts) {
  for (const int64_t rows : kRows) {
    for (const int64_t columns : kColumns) {
      for (const int64_t inner : kInner) {
        Operands operands = Make(rows, columns, inner);
        const std::vector<float> before = operands.c;
        MultiplyTile(operands.product);
        Expect(operands, before, false);
      }
    }
  }
}

TEST_P(TileProductsTest, ScaleAndMultiplyAddsToTheScaledRows) {
  for (const int64_t rows : kRows) {
    for (const int64_t columns : kColumns) {
      for (const int64_t inner : kInner) {
        Operands operands = Make(rows, columns, inner);
        const std::vector<float> before = operands.c;
        ScaleAndMultiplyTile(operands.product, operands.factors.data());
        Expect(operands, before, true);
      }
    }
  }
}

// What stands in c before a product must not matter, NaN neither.
TEST_P(TileProductsTest, MultiplyDoesNotReadTheResult) {
  Operands operands = Make(9, 40, 70);
  MultiplyTile(operands.product);
  const std::vector<float> want = operands.c;
  for (float& x : operands.c) x = std::nanf("");
  MultiplyTile(operands.product);
  for (int64_t r = 0; r < 9; ++r) {
    for (int64_t n = 0; n < 40; ++n) {
      const auto at = static_cast<size_t>(r * operands.product.c_stride + n);
      EXPECT_EQ(operands.c[at], want[at]);
    }
  }
}

TEST_P(TileProductsTest, ARowHasTheSameBitsWhereverItStands) {
  Operands operands = Make(12, 64, 100);
  for (int64_t r = 1; r < 12; ++r) {
    std::copy_n(operands.a.begin(), 100,
                operands.a.begin() + r * operands.product.a_stride);
  }
  MultiplyTile(operands.product);
  for (int64_t r = 1; r < 12; ++r) {
    for (int64_t n = 0; n < 64; ++n) {
      EXPECT_EQ(
          operands.c[static_cast<size_t>(r * operands.product.c_stride + n)],
          operands.c[static_cast<size_t>(n)]);
    }
  }
}

TEST_P(TileProductsTest, APanelHoldsItsKeysTurned) {
  for (const int64_t count : {0, 1, 3, 4, 5, 15, 16, 17, 63, 64}) {
    for (const int64_t depth : {1, 2, 4, 7, 33, 64}) {
      const int64_t stride = depth + 2;
      const std::vector<float> rows = Random((count + 1) * stride);
      std::vector<float> panel(static_cast<size_t>(depth * kPanelKeys),
                               kUntouched);
      PackPanel(rows.data(), stride, count, depth, panel.data());
      for (int64_t e = 0; e < depth; ++e) {
        for (int64_t key = 0; key < kPanelKeys; ++key) {
          const float got = panel[static_cast<size_t>(e * kPanelKeys + key)];
          const float want = key < count
                                 ? rows[static_cast<size_t>(key * stride + e)]
                             : key < RoundUpToColumnUnit(count) ? 0
                                                                : kUntouched;
          ASSERT_EQ(got, want)
              << count << " keys, element " << e << " of key " << key;
        }
      }
    }
  }
}

}  // namespace
}  // namespace attn
