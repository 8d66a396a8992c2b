#include "engine/kernels/onednn_matmul.h"

#include <cstdio>
#include <vector>

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

}  // namespace
}  // namespace attn
