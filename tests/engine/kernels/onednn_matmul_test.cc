#include "engine/kernels/onednn_matmul.h"

#include <cstdio>
#include <thread>
#include <vector>

#include "engine/core/half.h"
#include "gtest/gtest.h"
#include "tests/testing/compare.h"
#include "tests/testing/random_case.h"

namespace attn {
namespace {

using oracle::Close;

// A matrix with some elements after each row that are not the matrix's own.
struct Stored {
  int64_t rows;
  int64_t columns;
  int64_t stride;
  std::vector<float> data;

  double At(int64_t r, int64_t c) const {
    return static_cast<double>(data[static_cast<size_t>(r * stride + c)]);
  }
};

Stored RandomMatrix(oracle::Random& random, int64_t rows, int64_t columns) {
  const int64_t stride = columns + oracle::Below(random, 4);
  const auto values = oracle::Normal(random, rows * stride);
  return {rows, columns, stride, {values.begin(), values.end()}};
}

std::vector<double> Values(const Stored& matrix) {
  return {matrix.data.begin(), matrix.data.end()};
}

constexpr int64_t kExtents[] = {0, 1, 3, 16, 65};

TEST(OneDnnMatmulTest, MultiplyAddsUpEveryProductOnce) {
  oracle::Random random(1);
  for (const int64_t rows : kExtents) {
    for (const int64_t columns : kExtents) {
      for (const int64_t inner : kExtents) {
        const Stored a = RandomMatrix(random, rows, inner);
        const Stored b = RandomMatrix(random, inner, columns);
        Stored c = RandomMatrix(random, rows, columns);
        const bool accumulate = oracle::Below(random, 2) == 1;
        std::vector<double> want = Values(c);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t j = 0; j < columns; ++j) {
            double& sum = want[static_cast<size_t>(r * c.stride + j)];
            if (!accumulate) sum = 0;
            for (int64_t i = 0; i < inner; ++i) sum += a.At(r, i) * b.At(i, j);
          }
        }
        Multiply({rows, columns, inner}, {a.data.data(), a.stride},
                 {b.data.data(), b.stride}, accumulate,
                 {c.data.data(), c.stride});
        EXPECT_TRUE(Close(Values(c), want, {1e-4, 1e-5}))
            << rows << " x " << columns << " x " << inner;
      }
    }
  }
}

TEST(OneDnnMatmulTest, MultiplyTransposedScalesRowsTimesRows) {
  oracle::Random random(2);
  for (const int64_t rows : kExtents) {
    for (const int64_t columns : kExtents) {
      for (const int64_t inner : kExtents) {
        const Stored a = RandomMatrix(random, rows, inner);
        const Stored b = RandomMatrix(random, columns, inner);
        Stored c = RandomMatrix(random, rows, columns);
        std::vector<double> want = Values(c);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t j = 0; j < columns; ++j) {
            double sum = 0;
            for (int64_t i = 0; i < inner; ++i) sum += a.At(r, i) * b.At(j, i);
            want[static_cast<size_t>(r * c.stride + j)] = -0.5 * sum;
          }
        }
        MultiplyTransposed({rows, columns, inner}, -0.5F,
                           {a.data.data(), a.stride}, {b.data.data(), b.stride},
                           {c.data.data(), c.stride});
        EXPECT_TRUE(Close(Values(c), want, {1e-4, 1e-5}))
            << rows << " x " << columns << " x " << inner;
      }
    }
  }
}

TEST(OneDnnMatmulTest, VersionHasThreeNumbers) {
  int major = 0;
  int minor = 0;
  int patch = 0;
  EXPECT_EQ(std::sscanf(OneDnnLibraryVersion().c_str(), "%d.%d.%d", &major,
                        &minor, &patch),
            3);
  EXPECT_GE(major, 2);
}

// Elements rounded to BF16, and their bits.
std::vector<uint16_t> RoundToBF16(Stored& matrix) {
  std::vector<uint16_t> bits;
  for (float& element : matrix.data) {
    bits.push_back(ToBF16(element));
    element = FromBF16(bits.back());
  }
  return bits;
}

// rows times rows of BF16 beside the formula in double.
void ExpectProductOfBf16(oracle::Random& random, const ProductSize& size) {
  Stored a = RandomMatrix(random, size.rows, size.inner);
  Stored b = RandomMatrix(random, size.columns, size.inner);
  Stored c = RandomMatrix(random, size.rows, size.columns);
  const std::vector<uint16_t> a_bits = RoundToBF16(a);
  const std::vector<uint16_t> b_bits = RoundToBF16(b);
  std::vector<double> want = Values(c);
  for (int64_t r = 0; r < size.rows; ++r) {
    for (int64_t j = 0; j < size.columns; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < size.inner; ++i) sum += a.At(r, i) * b.At(j, i);
      want[static_cast<size_t>(r * c.stride + j)] = sum;
    }
  }
  MultiplyTransposed(size, ConstBf16Matrix{a_bits.data(), a.stride},
                     ConstBf16Matrix{b_bits.data(), b.stride},
                     {c.data.data(), c.stride});
  EXPECT_TRUE(Close(Values(c), want, {1e-4, 1e-5}))
      << size.rows << " x " << size.columns << " x " << size.inner;
}

TEST(OneDnnMatmulTest, ProductsOfBf16AreExactBeforeTheyAreSummed) {
  if (OneDnnNarrowProducts() == NarrowProducts::kNone) {
    GTEST_SKIP() << "this machine has no products of BF16";
  }
  oracle::Random random(3);
  for (const int64_t rows : kExtents) {
    for (const int64_t columns : kExtents) {
      for (const int64_t inner : {0, 1, 16, 65}) {
        ExpectProductOfBf16(random, {rows, columns, inner});
      }
    }
  }
}

// A product that threads share may not share its scratchpad.
TEST(OneDnnMatmulTest, ThreadsMultiplyBf16AtOnceWithoutDisturbingEachOther) {
  if (OneDnnNarrowProducts() == NarrowProducts::kNone) {
    GTEST_SKIP() << "this machine has no products of BF16";
  }
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([seed] {
      oracle::Random random(seed);
      for (int i = 0; i < 20; ++i) {
        ExpectProductOfBf16(random, {.rows = 64, .columns = 64, .inner = 64});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace attn
