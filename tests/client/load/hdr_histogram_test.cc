#include "client/load/hdr_histogram.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr double kPercentiles[] = {0,  1,  10, 25,   50,    75,
                                   90, 95, 99, 99.9, 99.99, 100};
constexpr double kRelativeError = 1e-3;

struct Distribution {
  std::string name;
  std::function<double(std::mt19937_64&)> draw;
};

void PrintTo(const Distribution& distribution, std::ostream* out) {
  *out << distribution.name;
}

std::vector<Distribution> Distributions() {
  return {
      {"UniformNanoseconds", std::uniform_real_distribution<>(0, 5000)},
      {"UniformMinutes", std::uniform_real_distribution<>(1e9, 6e11)},
      {"Exponential", std::exponential_distribution<>(1e-6)},
      {"LogNormal", std::lognormal_distribution<>(13, 2)},
      {"HeavyTail",
       [](std::mt19937_64& random) {
         return 1e4 *
                std::pow(std::uniform_real_distribution<>(1e-7, 1)(random), -1);
       }},
      {"TwoModes",
       [](std::mt19937_64& random) { return random() % 50 == 0 ? 1e9 : 1e5; }},
      {"Constant", [](std::mt19937_64&) { return 123456789.0; }},
  };
}

class HdrHistogramTest : public ::testing::TestWithParam<Distribution> {
 protected:
  std::vector<int64_t> Draw(size_t count, uint64_t seed) const {
    std::mt19937_64 random(seed);
    auto draw = GetParam().draw;
    std::vector<int64_t> values(count);
    for (int64_t& value : values) {
      value =
          std::min(HdrHistogram::kOneHour, static_cast<int64_t>(draw(random)));
    }
    return values;
  }

  static HdrHistogram Fill(const std::vector<int64_t>& values) {
    HdrHistogram histogram;
    for (const int64_t value : values) histogram.Record(value);
    return histogram;
  }
};

// By definition: the smallest value with at least this share at or below it.
int64_t ExactPercentile(const std::vector<int64_t>& sorted, double percentile) {
  size_t at_or_below = 0;
  while (static_cast<double>(at_or_below + 1) * 100 <
         percentile * static_cast<double>(sorted.size()) * (1 - 1e-12)) {
    ++at_or_below;
  }
  return sorted[at_or_below];
}

TEST_P(HdrHistogramTest, PercentilesAreWithinAThousandthOfTheSortedValues) {
  for (const size_t count : {1U, 2U, 7U, 1000U, 50'000U}) {
    std::vector<int64_t> values = Draw(count, count);
    const HdrHistogram histogram = Fill(values);
    std::sort(values.begin(), values.end());
    for (const double percentile : kPercentiles) {
      const auto exact =
          static_cast<double>(ExactPercentile(values, percentile));
      const auto got =
          static_cast<double>(histogram.ValueAtPercentile(percentile));
      EXPECT_GE(got, exact) << count << " values, p" << percentile;
      EXPECT_LE(got, exact * (1 + kRelativeError))
          << count << " values, p" << percentile;
    }
  }
}

TEST_P(HdrHistogramTest, CountExtremesAndMeanAreExact) {
  const std::vector<int64_t> values = Draw(10'000, 3);
  const HdrHistogram histogram = Fill(values);
  EXPECT_EQ(histogram.count(), 10'000);
  EXPECT_EQ(histogram.min(), *std::min_element(values.begin(), values.end()));
  EXPECT_EQ(histogram.max(), *std::max_element(values.begin(), values.end()));
  const long double sum = std::accumulate(values.begin(), values.end(), 0.0L);
  const auto mean = static_cast<double>(sum / 10'000);
  EXPECT_NEAR(histogram.mean(), mean, mean * 1e-12);
}

TEST_P(HdrHistogramTest, MergeEqualsRecordingEverythingInOne) {
  const std::vector<int64_t> first = Draw(3000, 4);
  const std::vector<int64_t> second = Draw(500, 5);
  std::vector<int64_t> both = first;
  both.insert(both.end(), second.begin(), second.end());
  HdrHistogram merged = Fill(first);
  merged.Merge(Fill(second));
  const HdrHistogram whole = Fill(both);
  EXPECT_EQ(merged.NonEmptyBuckets(), whole.NonEmptyBuckets());
  EXPECT_EQ(merged.count(), whole.count());
  EXPECT_EQ(merged.min(), whole.min());
  EXPECT_EQ(merged.max(), whole.max());
  EXPECT_NEAR(merged.mean(), whole.mean(), whole.mean() * 1e-12);
}

TEST_P(HdrHistogramTest, BucketsAreDisjointAndHoldEveryValue) {
  std::vector<int64_t> values = Draw(2000, 6);
  std::sort(values.begin(), values.end());
  int64_t total = 0;
  int64_t last = -1;
  for (const auto& bucket : Fill(values).NonEmptyBuckets()) {
    EXPECT_GT(bucket.lowest, last);
    EXPECT_EQ(
        bucket.count,
        std::upper_bound(values.begin(), values.end(), bucket.highest) -
            std::lower_bound(values.begin(), values.end(), bucket.lowest));
    last = bucket.highest;
    total += bucket.count;
  }
  EXPECT_EQ(total, 2000);
}

INSTANTIATE_TEST_SUITE_P(Distributions, HdrHistogramTest,
                         ::testing::ValuesIn(Distributions()),
                         [](const auto& p) { return p.param.name; });

TEST(HdrHistogramRange, SmallValuesAreExact) {
  for (int64_t value = 0; value < 2048; ++value) {
    HdrHistogram histogram;
    histogram.Record(value);
    histogram.Record(HdrHistogram::kOneHour);
    EXPECT_EQ(histogram.ValueAtPercentile(50), value);
  }
}

TEST(HdrHistogramRange, EveryPowerOfTwoAndItsNeighboursFallIntoOneBucket) {
  for (int bit = 1; bit < 41; ++bit) {
    for (const int64_t step : {-1, 0, 1}) {
      const int64_t value = (int64_t{1} << bit) + step;
      HdrHistogram histogram;
      histogram.Record(value);
      const auto buckets = histogram.NonEmptyBuckets();
      ASSERT_EQ(buckets.size(), 1u);
      EXPECT_LE(buckets[0].lowest, value);
      EXPECT_GE(buckets[0].highest, value);
      EXPECT_LE(static_cast<double>(buckets[0].highest - buckets[0].lowest),
                static_cast<double>(value) * kRelativeError);
    }
  }
}

TEST(HdrHistogramRange, ValuesOutsideAreClippedAndCounted) {
  HdrHistogram histogram(1'000'000);
  histogram.Record(-5);
  histogram.Record(5'000'000, 2);
  EXPECT_EQ(histogram.count(), 3);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), 1'000'000);
  EXPECT_EQ(histogram.clipped(), 2);
}

TEST(HdrHistogramRange, AnEmptyHistogramIsAllZeroAndMergesAsNothing) {
  HdrHistogram empty;
  EXPECT_EQ(empty.count(), 0);
  EXPECT_EQ(empty.ValueAtPercentile(99), 0);
  EXPECT_EQ(empty.mean(), 0);
  HdrHistogram one;
  one.Record(77);
  one.Merge(empty);
  EXPECT_EQ(one.min(), 77);
  empty.Merge(one);
  EXPECT_EQ(empty.min(), 77);
}

TEST(HdrHistogramRange, RecordingManyTimesEqualsRepeating) {
  HdrHistogram once;
  once.Record(4711, 1000);
  HdrHistogram often;
  for (int i = 0; i < 1000; ++i) often.Record(4711);
  EXPECT_EQ(once.NonEmptyBuckets(), often.NonEmptyBuckets());
  EXPECT_DOUBLE_EQ(once.mean(), 4711);
}

TEST(HdrHistogramDeathTest, MergingDifferentRangesDies) {
  HdrHistogram wide;
  EXPECT_DEATH(wide.Merge(HdrHistogram(1000)), "ranges differ");
}

TEST(HdrHistogram, FewerBitsAreLessExactByTheirInvariant) {
  for (const int bits : {2, 4, 6, 9}) {
    HdrHistogram coarse(HdrHistogram::kOneHour, bits);
    const int64_t exact = int64_t{1} << bits;
    for (int64_t value = 1; value < HdrHistogram::kOneHour;
         value += value / 3 + 1) {
      HdrHistogram one(HdrHistogram::kOneHour, bits);
      one.Record(value);
      one.Record(HdrHistogram::kOneHour);
      const int64_t reported = one.ValueAtPercentile(50);
      EXPECT_GE(reported, value);
      EXPECT_LE(static_cast<double>(reported),
                static_cast<double>(value) * (1 + std::ldexp(1, 1 - bits)))
          << bits;
      if (value < exact) {
        EXPECT_EQ(reported, value);
      }
    }
  }
}

TEST(HdrHistogram, IsTheSameAgainFromItsContents) {
  HdrHistogram histogram;
  for (int64_t value = 0; value < 5'000'000'000; value += value / 7 + 13) {
    histogram.Record(value, 1 + value % 5);
  }
  histogram.Record(HdrHistogram::kOneHour + 5);
  const auto again = HdrHistogram::From({.buckets = histogram.NonEmptyBuckets(),
                                         .min = histogram.min(),
                                         .max = histogram.max(),
                                         .sum = histogram.sum(),
                                         .clipped = histogram.clipped()});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->NonEmptyBuckets(), histogram.NonEmptyBuckets());
  EXPECT_EQ(again->count(), histogram.count());
  EXPECT_EQ(again->min(), histogram.min());
  EXPECT_EQ(again->max(), histogram.max());
  EXPECT_DOUBLE_EQ(again->mean(), histogram.mean());
  EXPECT_EQ(again->clipped(), 1);
  for (const double p : {0.0, 50.0, 99.0, 99.99, 100.0}) {
    EXPECT_EQ(again->ValueAtPercentile(p), histogram.ValueAtPercentile(p));
  }
  EXPECT_EQ(HdrHistogram::From({}).value().count(), 0);
}

TEST(HdrHistogram, ContentsThatNoHistogramHasAreRefused) {
  using Contents = HdrHistogram::Contents;
  const Contents good{
      .buckets = {{4096, 0, 2}}, .min = 4096, .max = 4097, .sum = 8193};
  ASSERT_TRUE(HdrHistogram::From(good).ok());
  std::vector<Contents> bad(11, good);
  bad[0].buckets[0].lowest = 4097;  // In the middle of a bucket.
  bad[1].buckets[0].count = 0;
  bad[2].buckets[0].count = -1;
  bad[3].buckets.push_back({5, 0, 1});  // Out of order.
  bad[4].buckets[0].lowest = -1;
  bad[5].buckets[0].lowest = HdrHistogram::kOneHour * 2;
  bad[6].min = 4000;
  bad[7].max = 5000;
  bad[8].sum = -1;
  bad[9].sum = 8000;
  bad[10].sum = 9000;
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(HdrHistogram::From(bad[i]).status().code(),
              absl::StatusCode::kInvalidArgument)
        << i;
  }
}

}  // namespace
}  // namespace attn
