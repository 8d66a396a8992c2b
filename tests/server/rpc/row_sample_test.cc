#include "server/rpc/row_sample.h"

#include <cmath>
#include <limits>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::DoubleNear;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kSampleNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kSampleInfinity = std::numeric_limits<double>::infinity();

// Spread over two of four keys.
RowStatistics MixingRow() {
  RowStatistics row;
  row.visible_keys = 4;
  row.entropy = std::log(2.0);
  row.peak_weight = 0.5;
  row.lse = 1;
  return row;
}

std::vector<RowStatistics> SampledRows(size_t count) {
  return std::vector<RowStatistics>(count, MixingRow());
}

// Whose peak weights tell where they are: i / count.
std::vector<RowStatistics> NumberedRows(size_t count) {
  std::vector<RowStatistics> rows = SampledRows(count);
  for (size_t i = 0; i < count; ++i) {
    rows[i].peak_weight = static_cast<double>(i) / static_cast<double>(count);
  }
  return rows;
}

TEST(SampleRows, EntropyIsSharedOutOfTheLargestPossible) {
  const auto sample = SampleRows(SampledRows(1), {.rate = 1});
  ASSERT_THAT(sample, SizeIs(1));
  // ln 2 of ln 4.
  EXPECT_THAT(sample[0].entropy_ratio, DoubleNear(0.5, 1e-12));
  EXPECT_EQ(sample[0].peak_weight, 0.5);
  EXPECT_FALSE(sample[0].saturated);
}

TEST(SampleRows, ARowIsSaturatedFromAPeakOf99PercentOn) {
  std::vector<RowStatistics> rows = SampledRows(2);
  rows[0].peak_weight = 0.99;
  rows[1].peak_weight = 0.9899;
  const auto sample = SampleRows(rows, {.rate = 1});
  EXPECT_TRUE(sample[0].saturated);
  EXPECT_FALSE(sample[1].saturated);
}

TEST(SampleRows, RowsThatTellNothingAreLeftOut) {
  std::vector<RowStatistics> rows = SampledRows(5);
  rows[0].visible_keys = 1;
  rows[1] = RowStatistics{};
  // As linear attention has them.
  rows[2].lse = -kSampleInfinity;
  // As NaN among the inputs makes them.
  rows[3].entropy = kSampleNaN;
  rows[4].peak_weight = kSampleInfinity;
  EXPECT_THAT(SampleRows(rows, {.rate = 1}), IsEmpty());
  EXPECT_THAT(SampleRows({}, {.rate = 1}), IsEmpty());
}

TEST(SampleRows, NoNumberOfRowsAndNoTurnGivesMoreThanTheBound) {
  for (const size_t rows : {1, 2, 31, 32, 33, 63, 64, 65, 1000, 100000}) {
    for (const uint64_t turn : {0, 1, 2, 1000000007}) {
      for (const double rate : {1e-9, 0.1, 1.0}) {
        const size_t count =
            SampleRows(SampledRows(rows), {.rate = rate, .turn = turn}).size();
        EXPECT_GE(count, 1U) << rows << " " << turn << " " << rate;
        EXPECT_LE(count, 32U) << rows << " " << turn << " " << rate;
      }
    }
  }
}

TEST(SampleRows, EachRowHasItsTurn) {
  const std::vector<RowStatistics> rows = NumberedRows(40);
  std::set<double> seen;
  // Four rows, ten apart; ten beginnings and as many turns again.
  for (uint64_t turn = 0; turn < 20; ++turn) {
    for (const ObservedRow& row :
         SampleRows(rows, {.rate = 0.1, .turn = turn})) {
      seen.insert(row.peak_weight);
    }
  }
  EXPECT_THAT(seen, SizeIs(40));
}

TEST(SampleHeads, SumsAreThoseOfTheHeadInAllBatchEntries) {
  // [2, 3, 2]: the peak weight tells the head.
  std::vector<RowStatistics> rows = SampledRows(12);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].peak_weight = 0.25 * static_cast<double>(i / 2 % 3);
  }
  rows[0].visible_keys = 1;
  rows[2].peak_weight = 1;
  const auto heads = SampleHeads(rows, 3, 2, {.rate = 1});
  ASSERT_THAT(heads, SizeIs(3));
  EXPECT_EQ(heads[0].rows, 3);
  EXPECT_EQ(heads[0].peak_weights, 0);
  EXPECT_THAT(heads[0].entropy_ratios, DoubleNear(1.5, 1e-12));
  EXPECT_EQ(heads[1].rows, 4);
  EXPECT_EQ(heads[1].peak_weights, 1.75);
  EXPECT_EQ(heads[1].saturated_rows, 1);
  EXPECT_EQ(heads[2].peak_weights, 2);
  EXPECT_EQ(heads[2].saturated_rows, 0);
}

TEST(SampleHeads, EachHeadIsSeenInEachCallWithinTheBound) {
  constexpr int64_t kSeenHeads = 33;
  for (const int64_t length : {1, 7, 100, 5000}) {
    for (uint64_t turn = 0; turn < 5; ++turn) {
      const auto heads =
          SampleHeads(SampledRows(static_cast<size_t>(2 * kSeenHeads * length)),
                      kSeenHeads, length, {.rate = 0.1, .turn = turn});
      ASSERT_THAT(heads, SizeIs(kSeenHeads));
      for (const ObservedHead& head : heads) {
        EXPECT_GE(head.rows, 1);
        EXPECT_LE(head.rows, 8);
      }
    }
  }
}

TEST(SampleHeads, NoRowsAreNoHeads) {
  EXPECT_THAT(SampleHeads({}, 0, 0, {.rate = 1}), IsEmpty());
}

}  // namespace
}  // namespace attn
