#include "engine/core/head_statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

RowStatistics Row(int64_t visible_keys, int64_t top_key, double peak_weight,
                  double entropy) {
  RowStatistics row;
  row.visible_keys = visible_keys;
  row.top_key = top_key;
  row.peak_weight = peak_weight;
  row.entropy = entropy;
  return row;
}

TEST(HeadStatisticsTest, NoRowsAndOnlyEmptyRowsHaveNoMeans) {
  for (const size_t count : {0, 3}) {
    const HeadStatistics head = Summarize(std::vector<RowStatistics>(count));
    EXPECT_EQ(head.rows, count);
    EXPECT_EQ(head.empty_rows, count);
    EXPECT_EQ(head.mean_entropy, 0);
    EXPECT_EQ(head.mean_entropy_ratio, 0);
    EXPECT_EQ(head.mean_peak_weight, 0);
    EXPECT_EQ(head.mean_visible_keys, 0);
    EXPECT_EQ(head.top_key, -1);
    EXPECT_EQ(head.top_key_share, 0);
    EXPECT_EQ(head.logit_min, 0);
    EXPECT_EQ(head.logit_max, 0);
  }
}

TEST(HeadStatisticsTest, EmptyRowsAreCountedButDoNotPullTheMeans) {
  const std::vector<RowStatistics> rows = {Row(4, 2, 0.5, 1.0), RowStatistics(),
                                           Row(2, 0, 0.75, 0.5)};
  const HeadStatistics head = Summarize(rows);
  EXPECT_EQ(head.rows, 3);
  EXPECT_EQ(head.empty_rows, 1);
  EXPECT_DOUBLE_EQ(head.mean_entropy, (1.0 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(head.mean_entropy_ratio,
                   (1.0 / std::log(4.0) + 0.5 / std::log(2.0)) / 2);
  EXPECT_DOUBLE_EQ(head.mean_peak_weight, (0.5 + 0.75) / 2);
  EXPECT_DOUBLE_EQ(head.max_peak_weight, 0.75);
  EXPECT_DOUBLE_EQ(head.mean_visible_keys, 3);
}

TEST(HeadStatisticsTest, UniformRowsHaveAnEntropyRatioOfOne) {
  std::vector<RowStatistics> rows;
  for (int keys = 2; keys < 40; ++keys) {
    rows.push_back(Row(keys, 0, 1.0 / keys, std::log(keys)));
  }
  EXPECT_NEAR(Summarize(rows).mean_entropy_ratio, 1, 1e-14);
}

TEST(HeadStatisticsTest, ARowWithOneKeyHasNoChoice) {
  const std::vector<RowStatistics> rows = {Row(1, 0, 1, 0),
                                           Row(2, 1, 0.5, std::log(2.0))};
  const HeadStatistics head = Summarize(rows);
  EXPECT_EQ(head.saturated_rows, 0);
  EXPECT_DOUBLE_EQ(head.mean_entropy_ratio, 1);
  EXPECT_DOUBLE_EQ(head.mean_entropy, std::log(2.0) / 2);
}

TEST(HeadStatisticsTest, SaturationStartsAtItsThreshold) {
  const std::vector<RowStatistics> rows = {
      Row(2, 0, kSaturatedPeakWeight, 0.05),
      Row(2, 0, std::nextafter(kSaturatedPeakWeight, 0.0), 0.05),
      Row(9, 0, 1, 0)};
  EXPECT_EQ(Summarize(rows).saturated_rows, 2);
}

TEST(HeadStatisticsTest, TheTopKeyIsTheMostFrequentAndTheLowestOnTies) {
  const std::vector<RowStatistics> frequent = {
      Row(9, 7, 1, 0), Row(9, 3, 1, 0), Row(9, 7, 1, 0), Row(9, 1, 1, 0)};
  EXPECT_EQ(Summarize(frequent).top_key, 7);
  EXPECT_DOUBLE_EQ(Summarize(frequent).top_key_share, 0.5);
  const std::vector<RowStatistics> tied = {Row(9, 7, 1, 0), Row(9, 3, 1, 0),
                                           RowStatistics()};
  EXPECT_EQ(Summarize(tied).top_key, 3);
  EXPECT_DOUBLE_EQ(Summarize(tied).top_key_share, 0.5);
}

TEST(HeadStatisticsTest, LogitExtremesComeFromRowsThatSeeAKey) {
  // All above 0, where an empty row's 0 would win the minimum; then below.
  for (const double offset : {10.0, -30.0}) {
    std::vector<RowStatistics> rows(3);
    rows[1] = Row(2, 0, 0.5, 0.6);
    rows[1].logit_min = offset + 2;
    rows[1].logit_max = offset + 3;
    rows[2] = Row(2, 0, 0.5, 0.6);
    rows[2].logit_min = offset + 1;
    rows[2].logit_max = offset + 2;
    const HeadStatistics head = Summarize(rows);
    EXPECT_EQ(head.logit_min, offset + 1);
    EXPECT_EQ(head.logit_max, offset + 3);
  }
}

}  // namespace
}  // namespace attn
