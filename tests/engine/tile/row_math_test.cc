#include "engine/tile/row_math.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
// Past every vector length, with every tail.
constexpr int64_t kMaxTail = 70;

class RowMathTest : public OnEveryTarget {
 protected:
  std::vector<float> Random(int64_t count, float low, float high) {
    std::uniform_real_distribution<float> draw(low, high);
    std::vector<float> row(static_cast<size_t>(count));
    for (float& x : row) x = draw(random_);
    return row;
  }

  std::mt19937 random_{17};
};
ATTN_ON_EVERY_TARGET(RowMathTest);

int64_t Size(const std::vector<float>& row) {
  return static_cast<int64_t>(row.size());
}

// Difference in units of the last place of `want` as a float.
double Ulps(float got, double want) {
  const auto nearest = std::abs(static_cast<float>(want));
  const double ulp =
      static_cast<double>(std::nextafter(nearest, kInf)) - nearest;
  return std::abs(static_cast<double>(got) - want) / ulp;
}

TEST_P(RowMathTest, TheChosenTargetIsNamed) {
  EXPECT_EQ(RowMathIsa(), hwy::TargetName(GetParam()));
}

TEST_P(RowMathTest, RowMaxFindsTheLargestAtEveryPlaceOfEveryLength) {
  EXPECT_EQ(RowMax(static_cast<const float*>(nullptr), 0), -kInf);
  for (int64_t count = 1; count <= kMaxTail; ++count) {
    for (int64_t at = 0; at < count; ++at) {
      std::vector<float> row = Random(count, -9, -1);
      row[static_cast<size_t>(at)] = -0.5F;
      ASSERT_EQ(RowMax(row.data(), count), -0.5F) << count << " " << at;
      ASSERT_EQ(FirstMaxIndex(row.data(), count), at);
      ASSERT_EQ(FirstIndexOf(row.data(), count, -0.5F), at);
    }
  }
}

TEST_P(RowMathTest, RowMaxPassesOverNaNWhereverItStands) {
  for (int64_t at = 0; at < kMaxTail; ++at) {
    std::vector<float> row = Random(kMaxTail, 1, 2);
    const size_t place = static_cast<size_t>(at);
    row[place] = kNaN;
    row[(place + 1) % row.size()] = 3;
    ASSERT_EQ(RowMax(row.data(), kMaxTail), 3.0F) << at;
  }
}

TEST_P(RowMathTest, TheFirstOfEqualMaximaWins) {
  std::vector<float> row(40, 1);
  row[11] = row[12] = row[39] = 2;
  EXPECT_EQ(FirstMaxIndex(row.data(), 40), 11);
  EXPECT_EQ(FirstIndexOf(row.data(), 40, 5.0F), -1);
}

TEST_P(RowMathTest, ScanRowCountsWhatIsVisible) {
  for (int64_t count = 0; count <= kMaxTail; ++count) {
    std::vector<float> row = Random(count, -5, 5);
    float min = kInf;
    float max = -kInf;
    int64_t visible = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i % 3 == 1) {
        row[i] = -kInf;
        continue;
      }
      ++visible;
      min = std::min(min, row[i]);
      max = std::max(max, row[i]);
    }
    const RowRange<float> range = ScanRow(row.data(), count);
    ASSERT_EQ(range.visible, visible);
    ASSERT_FALSE(range.has_nan);
    if (visible == 0) continue;
    ASSERT_EQ(range.min, min);
    ASSERT_EQ(range.max, max);
  }
}

TEST_P(RowMathTest, ScanRowSeesOneNaNAnywhere) {
  for (size_t at = 0; at < 70; ++at) {
    std::vector<float> row = Random(70, -5, 5);
    row[at] = kNaN;
    const RowRange<float> range = ScanRow(row.data(), 70);
    ASSERT_TRUE(range.has_nan) << at;
    ASSERT_EQ(range.visible, 70);
  }
  const std::vector<float> row(3, kNaN);
  EXPECT_EQ(ScanRow(row.data(), 3).max, 0.0F);
}

TEST_P(RowMathTest, ScanRowTellsInfinitiesFromExcludedElements) {
  for (size_t at = 0; at < 70; ++at) {
    std::vector<float> row = Random(70, -5, 5);
    row[at] = kInf;
    row[(at + 16) % 70] = -kInf;
    const RowRange<float> range = ScanRow(row.data(), 70);
    ASSERT_EQ(range.max, kInf);
    ASSERT_GE(range.min, -5.0F);
    ASSERT_EQ(range.visible, 69);
    ASSERT_FALSE(range.has_nan);
  }
}

TEST_P(RowMathTest, ExpIsWithinTwoUlpOverItsWholeRange) {
  std::vector<float> x;
  for (float v = 0; v > -87.33F; v -= 0.00037F) x.push_back(v);
  std::vector<float> y = x;
  ExpRow(y.data(), Size(y), 0.0F);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, Ulps(y[i], std::exp(static_cast<double>(x[i]))));
  }
  EXPECT_LE(worst, 2.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST_P(RowMathTest, ExpTreatsTheEdgesByName) {
  std::vector<float> row = {0.0F, -0.0F, -87.4F, -1e9F, -kLargest, -kInf, kNaN};
  ExpRow(row.data(), Size(row), 0.0F);
  EXPECT_EQ(row[0], 1.0F);
  EXPECT_EQ(row[1], 1.0F);
  EXPECT_THAT(std::vector<float>(row.begin() + 2, row.end() - 1),
              testing::Each(0.0F));
  EXPECT_TRUE(std::isnan(row[6]));
}

TEST_P(RowMathTest, ExpOfNaNIsNaNWhateverItsSignAndPayload) {
  for (const uint32_t bits : {0x7FC00000U, 0x7FC00001U, 0x7F8000FFU,
                              0x7FFFFFFFU, 0xFFC000C0U, 0xFFFFFFFFU}) {
    std::vector<float> row(20, std::bit_cast<float>(bits));
    const ExpSums sums = ExpRow(row.data(), Size(row), 0.0F);
    for (const float x : row) ASSERT_TRUE(std::isnan(x)) << bits;
    ASSERT_TRUE(std::isnan(sums.sum));
  }
}

TEST_P(RowMathTest, ExcludedElementsAddNothingToTheSums) {
  std::vector<float> row = {-kInf, 3.0F, -kInf, -1e9F, -kInf};
  const ExpSums sums = ExpRow(row.data(), Size(row), 3.0F);
  EXPECT_EQ(sums.sum, 1.0);
  EXPECT_EQ(sums.weighted, 0.0);
}

TEST_P(RowMathTest, SumsOfLongRowsKeepSixDigits) {
  for (const int64_t count : {1, 7, 70, 511, 513, 1025, 4096, 20000}) {
    for (const float spread : {0.01F, 3.0F, 60.0F}) {
      std::vector<float> row = Random(count, -spread, 0);
      double sum = 0;
      double weighted = 0;
      for (const float x : row) {
        sum += std::exp(static_cast<double>(x));
        weighted += std::exp(static_cast<double>(x)) * static_cast<double>(x);
      }
      const ExpSums got = ExpRow(row.data(), count, 0.0F);
      ASSERT_NEAR(got.sum / sum, 1, 1e-6) << count << " " << spread;
      ASSERT_NEAR(got.weighted / weighted, 1, 1e-6) << count << " " << spread;
    }
  }
}

TEST_P(RowMathTest, BitsDoNotDependOnAlignment) {
  const std::vector<float> row = Random(613, -30, 0);
  std::vector<float> first = row;
  const ExpSums sums = ExpRow(first.data(), Size(row), 0.0F);
  for (size_t shift = 1; shift <= 17; ++shift) {
    std::vector<float> moved(row.size() + shift);
    std::copy(row.begin(), row.end(), moved.begin() + static_cast<int>(shift));
    const ExpSums again = ExpRow(moved.data() + shift, Size(row), 0.0F);
    ASSERT_EQ(again.sum, sums.sum);
    ASSERT_EQ(again.weighted, sums.weighted);
    ASSERT_TRUE(std::equal(first.begin(), first.end(),
                           moved.begin() + static_cast<int>(shift)));
  }
}

TEST_P(RowMathTest, NothingIsWrittenBeyondTheRow) {
  const std::vector<uint8_t> none(kMaxTail, 0);
  const std::vector<float> other(kMaxTail, 1);
  for (int64_t count = 0; count <= kMaxTail; ++count) {
    std::vector<float> row(kMaxTail + 40, -1);
    ScaleRow(row.data(), count, 2.0F);
    DivideRow(row.data(), count, 2.0F);
    AddRow(row.data(), other.data(), count);
    SoftcapRow(row.data(), count, 5.0F);
    ExpRow(row.data(), count, 0.0F);
    DistanceRow(row.data(), count, 5, 1.0F);
    ExcludeRow(row.data(), none.data(), count);
    for (int64_t i = 0; i < Size(row); ++i) {
      ASSERT_EQ(row[static_cast<size_t>(i)], i < count ? -kInf : -1.0F)
          << count << " " << i;
    }
  }
}

TEST_P(RowMathTest, ArithmeticOnRowsIsThatOfEachElement) {
  for (int64_t count = 1; count <= kMaxTail; ++count) {
    const std::vector<float> a = Random(count, -9, 9);
    const std::vector<float> b = Random(count, -9, 9);
    std::vector<float> scaled = a;
    std::vector<float> divided = a;
    std::vector<float> sum = a;
    ScaleRow(scaled.data(), count, 0.3F);
    DivideRow(divided.data(), count, 0.3F);
    AddRow(sum.data(), b.data(), count);
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(scaled[i], a[i] * 0.3F);
      ASSERT_EQ(divided[i], a[i] / 0.3F);
      ASSERT_EQ(sum[i], a[i] + b[i]);
    }
  }
}

TEST_P(RowMathTest, FiniteNumbersSaturateAndInfinitiesStay) {
  std::vector<float> sum = {-kLargest, kLargest, -kInf, 1, 2, kNaN};
  const std::vector<float> other = {-kLargest, kLargest, 5, -kInf, kInf, 1};
  AddRow(sum.data(), other.data(), Size(sum));
  EXPECT_THAT(std::vector<float>(sum.begin(), sum.end() - 1),
              testing::ElementsAre(-kLargest, kLargest, -kInf, -kInf, kInf));
  EXPECT_TRUE(std::isnan(sum[5]));

  std::vector<float> quotient = {-kLargest, kLargest, -kInf, kNaN};
  DivideRow(quotient.data(), Size(quotient), 0.25F);
  EXPECT_THAT(std::vector<float>(quotient.begin(), quotient.end() - 1),
              testing::ElementsAre(-kLargest, kLargest, -kInf));
  EXPECT_TRUE(std::isnan(quotient[3]));
}

TEST_P(RowMathTest, SoftcapIsCapTimesTanh) {
  for (const float cap : {0.5F, 1.0F, 30.0F, 1e4F}) {
    std::vector<float> row;
    for (float u = -12; u < 12; u += 0.0007F) row.push_back(u * cap);
    for (float u = 1e-30F; u < 1; u *= 3) row.push_back(u * cap);
    const std::vector<float> before = row;
    SoftcapRow(row.data(), Size(row), cap);
    double worst = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const double c = cap;
      const double want = c * std::tanh(static_cast<double>(before[i]) / c);
      worst = std::max(worst, std::abs(row[i] - want) / std::abs(want));
    }
    // Five roundings of a relative 6e-8.
    EXPECT_LT(worst, 3e-7) << cap;
  }
  std::vector<float> edges = {kInf, -kInf, 0, kNaN};
  SoftcapRow(edges.data(), Size(edges), 2.0F);
  EXPECT_THAT(std::vector<float>(edges.begin(), edges.end() - 1),
              testing::ElementsAre(2, -2, 0));
  EXPECT_TRUE(std::isnan(edges[3]));
}

TEST_P(RowMathTest, DistancesAreExactNearTheirOriginHoweverFarItLies) {
  for (int64_t count = 0; count <= kMaxTail; ++count) {
    for (const int64_t start : {-100L, -1L, 0L, 3L, 64L, 1000L}) {
      std::vector<float> row(static_cast<size_t>(count));
      DistanceRow(row.data(), count, start, -0.5F);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(row[static_cast<size_t>(i)],
                  -0.5F * static_cast<float>(std::abs(start - i)));
      }
    }
  }
  std::vector<float> row(8);
  DistanceRow(row.data(), 8, 1L << 40, -1e38F);
  EXPECT_THAT(row, testing::Each(-kLargest));
}

TEST_P(RowMathTest, ExcludeRowHidesWhatIsNotAllowedNaNToo) {
  for (int64_t count = 0; count <= kMaxTail; ++count) {
    std::vector<float> row(static_cast<size_t>(count), kNaN);
    std::vector<uint8_t> allowed(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      allowed[i] = i % 3 == 0 ? 1 : 0;
      if (allowed[i] != 0) row[i] = 7;
    }
    if (count > 3) allowed[3] = 255;
    ExcludeRow(row.data(), allowed.data(), count);
    for (size_t i = 0; i < row.size(); ++i) {
      ASSERT_EQ(row[i], i % 3 == 0 ? 7.0F : -kInf);
    }
  }
}

TEST_P(RowMathTest, DotMatchesTheSumInDouble) {
  for (int64_t count = 0; count <= 2 * kMaxTail; ++count) {
    const std::vector<float> a = Random(count, -1, 1);
    const std::vector<float> b = Random(count, -1, 1);
    double want = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      want += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    ASSERT_NEAR(Dot(a.data(), b.data(), count), want, 2e-6);
  }
}

TEST_P(RowMathTest, EveryNonFiniteElementIsCounted) {
  for (int64_t count = 0; count <= kMaxTail; ++count) {
    std::vector<float> row = Random(count, -1, 1);
    int64_t want = 0;
    const float specials[] = {kInf, -kInf, kNaN, -kNaN};
    for (size_t i = 0; i < row.size(); i += 5, ++want) {
      row[i] = specials[i % 4];
    }
    ASSERT_EQ(CountNonFinite(row.data(), count), want);
  }
}

}  // namespace
}  // namespace attn
