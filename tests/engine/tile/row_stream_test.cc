#include "engine/tile/row_stream.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/core/half.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kI8};
constexpr int64_t kWidths[] = {0, 1, 7, 12, 16, 33, 64, 65, 128, 192};
constexpr int64_t kRowCounts[] = {1, 3, 4, 5, 18};
// Fills what must not be read: it would spoil every sum.
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Whole numbers, and small ones: exact in every type, and so are their sums.
float Number(int64_t i) { return static_cast<float>(i * i % 13 - 6); }

void Write(float value, DType dtype, std::byte* to) {
  if (dtype == DType::kI8) {
    // No NaN: the largest number shows as well.
    *reinterpret_cast<int8_t*>(to) =
        std::isnan(value) ? int8_t{127} : static_cast<int8_t>(value);
    return;
  }
  if (dtype == DType::kF32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const uint16_t bits = dtype == DType::kBF16 ? ToBF16(value) : ToF16(value);
  std::memcpy(to, &bits, sizeof(bits));
}

// Rows of a type, `gap` elements between them that nobody may read, and none
// behind the last.
struct Stored {
  Stored(DType dtype, int64_t rows, int64_t width, int64_t gap)
      : bytes(static_cast<size_t>(rows * (width + gap) - gap) * SizeOf(dtype)) {
    const int64_t stride = width + gap;
    for (int64_t i = 0; i < rows * stride - gap; ++i) {
      Write(i % stride < width ? Number(i / stride * width + i % stride) : kNaN,
            dtype, bytes.data() + static_cast<size_t>(i) * SizeOf(dtype));
    }
    stream = {bytes.data(), dtype, stride, rows, width};
  }
  std::vector<std::byte> bytes;
  RowStream stream;
};

class RowStreamTest : public OnEveryTarget {
 protected:
  // visit(stored, few) for every type, extent and gap.
  template <typename Visit>
  static void ForEachCase(Visit visit) {
    for (const DType dtype : kTypes) {
      for (const int64_t width : kWidths) {
        for (const int64_t rows : kRowCounts) {
          for (const int64_t gap : {0, 5}) {
            if (width == 0 && gap == 0) continue;
            for (const int64_t few : {1, 2, 3, 4, 7}) {
              SCOPED_TRACE(testing::Message()
                           << Name(dtype) << ", " << rows << " rows of "
                           << width << " with gaps of " << gap << ", " << few);
              visit(Stored(dtype, rows, width, gap), few);
            }
          }
        }
      }
    }
  }
};

ATTN_ON_EVERY_TARGET(RowStreamTest);

TEST_P(RowStreamTest, DotsAreSumsOfProducts) {
  ForEachCase([](const Stored& stored, int64_t few) {
    const auto [data, dtype, step, rows, width, next] = stored.stream;
    const int64_t stride = WholeFloats(width);
    std::vector<float> q(static_cast<size_t>(few * stride), 0.0F);
    for (int64_t r = 0; r < few; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        q[static_cast<size_t>(r * stride + c)] = Number(r * 5 + c + 2);
      }
    }
    const int64_t dots_stride = WholeRows(rows) + 1;
    std::vector<float> dots(static_cast<size_t>(few * dots_stride), kNaN);
    DotStream({q.data(), stride, few}, stored.stream, dots.data(), dots_stride);
    for (int64_t r = 0; r < few; ++r) {
      for (int64_t j = 0; j < rows; ++j) {
        float want = 0;
        for (int64_t c = 0; c < width; ++c) {
          want += Number(r * 5 + c + 2) * Number(j * width + c);
        }
        ASSERT_EQ(dots[static_cast<size_t>(r * dots_stride + j)], want)
            << "row " << r << ", stored row " << j;
      }
      // The room ends with the padded row.
      ASSERT_TRUE(
          std::isnan(dots[static_cast<size_t>((r + 1) * dots_stride - 1)]));
    }
  });
}

TEST_P(RowStreamTest, DotsOfPairsAreSumsOfProducts) {
  if (!HasPairDots()) GTEST_SKIP() << "this target has no dots of pairs";
  for (const int64_t width : {1, 7, 31, 32, 33, 64, 100, 128}) {
    for (const int64_t rows : kRowCounts) {
      const Stored stored(DType::kBF16, rows, width, 3);
      constexpr int64_t kFew = 6;
      const int64_t stride = WholePairs(width);
      std::vector<uint16_t> q(static_cast<size_t>(kFew * stride), 0);
      for (int64_t r = 0; r < kFew; ++r) {
        for (int64_t c = 0; c < width; ++c) {
          q[static_cast<size_t>(r * stride + c)] =
              ToBF16(Number(r * 5 + c + 2));
        }
      }
      const int64_t dots_stride = WholeRows(rows);
      std::vector<float> dots(static_cast<size_t>(kFew * dots_stride), kNaN);
      DotPairs({q.data(), stride, kFew}, stored.stream, dots.data(),
               dots_stride);
      for (int64_t r = 0; r < kFew; ++r) {
        for (int64_t j = 0; j < rows; ++j) {
          float want = 0;
          for (int64_t c = 0; c < width; ++c) {
            want += Number(r * 5 + c + 2) * Number(j * width + c);
          }
          ASSERT_EQ(dots[static_cast<size_t>(r * dots_stride + j)], want)
              << "row " << r << ", stored row " << j << " of " << width;
        }
      }
    }
  }
}

TEST_P(RowStreamTest, WeightedRowsAreAddedUp) {
  ForEachCase([](const Stored& stored, int64_t few) {
    const auto [data, dtype, step, rows, width, next] = stored.stream;
    const int64_t weights_stride = WholeRows(rows);
    std::vector<float> weights(static_cast<size_t>(few * weights_stride), 0.0F);
    for (int64_t r = 0; r < few; ++r) {
      for (int64_t j = 0; j < rows; ++j) {
        weights[static_cast<size_t>(r * weights_stride + j)] =
            Number(r * 7 + j);
      }
    }
    const int64_t stride = WholeFloats(width);
    std::vector<float> sums(static_cast<size_t>(few * stride), 3.0F);
    AddStream({weights.data(), weights_stride, few}, stored.stream, sums.data(),
              stride);
    for (int64_t r = 0; r < few; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        float want = 3;
        for (int64_t j = 0; j < rows; ++j) {
          want += Number(r * 7 + j) * Number(j * width + c);
        }
        ASSERT_EQ(sums[static_cast<size_t>(r * stride + c)], want)
            << "row " << r << ", column " << c;
      }
    }
  });
}

// Numbers whose products round.
float Uneven(int64_t i) { return std::sin(static_cast<float>(i)); }

TEST_P(RowStreamTest, NarrowRowsGiveTheBitsOfTheSameRowsWidened) {
  constexpr int64_t kRows = 19;
  constexpr int64_t kWidth = 77;
  std::vector<float> q(static_cast<size_t>(3 * WholeFloats(kWidth)), 0.0F);
  std::vector<float> weights(static_cast<size_t>(3 * WholeRows(kRows)), 0.0F);
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c = 0; c < kWidth; ++c) {
      q[static_cast<size_t>(r * WholeFloats(kWidth) + c)] = Uneven(r + c);
    }
    for (int64_t j = 0; j < kRows; ++j) {
      weights[static_cast<size_t>(r * WholeRows(kRows) + j)] = Uneven(r - j);
    }
  }
  std::vector<uint16_t> narrow;
  std::vector<float> wide;
  for (int64_t i = 0; i < kRows * kWidth; ++i) {
    narrow.push_back(ToBF16(Uneven(i + 9)));
    wide.push_back(FromBF16(narrow.back()));
  }
  const auto run = [&](const void* data, DType dtype) {
    const RowStream stream{static_cast<const std::byte*>(data), dtype, kWidth,
                           kRows, kWidth};
    const int64_t few = 3;
    std::vector<float> dots(static_cast<size_t>(few * WholeRows(kRows)));
    std::vector<float> sums(static_cast<size_t>(few * WholeFloats(kWidth)));
    DotStream({q.data(), WholeFloats(kWidth), few}, stream, dots.data(),
              WholeRows(kRows));
    AddStream({weights.data(), WholeRows(kRows), few}, stream, sums.data(),
              WholeFloats(kWidth));
    std::vector<float> all;
    for (int64_t r = 0; r < few; ++r) {
      const auto dot = dots.begin() + r * WholeRows(kRows);
      const auto sum = sums.begin() + r * WholeFloats(kWidth);
      all.insert(all.end(), dot, dot + kRows);
      all.insert(all.end(), sum, sum + kWidth);
    }
    return all;
  };
  EXPECT_EQ(run(narrow.data(), DType::kBF16), run(wide.data(), DType::kF32));
}

TEST_P(RowStreamTest, NoRowsGiveNoDotsAndAddNothing) {
  float sum = 2;
  DotStream({nullptr, 0, 1}, {}, nullptr, 0);
  AddStream({nullptr, 0, 1}, {}, &sum, 1);
  EXPECT_EQ(sum, 2);
}

}  // namespace
}  // namespace attn
