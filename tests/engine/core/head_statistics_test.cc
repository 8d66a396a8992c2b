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
  for (const size_t count : {size_t{0}, size_t{3}}) {
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

// A row with logits.
RowStatistics LogitRow(int64_t visible_keys, double mean, double std) {
  RowStatistics row = Row(visible_keys, 0, 1.0 / 3, std::log(visible_keys));
  row.lse = 1;
  row.logit_mean = mean;
  row.logit_std = std;
  row.logit_min = mean - std;
  row.logit_max = mean + std;
  return row;
}

TEST(HeadStatisticsTest, LogitMomentsAreThoseOfAllTheLogitsTogether) {
  // {1, 2, 6} and {4, 8}: mean 21 / 5, population variance 33.2 / 5.
  const std::vector<RowStatistics> rows = {LogitRow(3, 3, std::sqrt(14.0 / 3)),
                                           RowStatistics(), LogitRow(2, 6, 2)};
  const HeadStatistics head = Summarize(rows);
  const std::vector<double> all = {1, 2, 6, 4, 8};
  double variance = 0;
  for (const double x : all) variance += std::pow(x - 4.2, 2) / 5;
  EXPECT_DOUBLE_EQ(head.logit_mean, 4.2);
  EXPECT_DOUBLE_EQ(head.logit_std, std::sqrt(variance));
}

TEST(HeadStatisticsTest, LogitMomentsDoNotOverflow) {
  const std::vector<RowStatistics> rows = {LogitRow(2, 1e300, 0),
                                           LogitRow(2, -1e300, 0)};
  EXPECT_EQ(Summarize(rows).logit_mean, 0);
  EXPECT_DOUBLE_EQ(Summarize(rows).logit_std, 1e300);
}

TEST(HeadStatisticsTest, MeansOfEffectiveKeysAndContributionSkipEmptyRows) {
  std::vector<RowStatistics> rows = {Row(4, 0, 0.25, std::log(4.0)),
                                     RowStatistics(), Row(3, 0, 1, 0)};
  rows[0].contribution = 2;
  rows[2].contribution = 5;
  EXPECT_NEAR(Summarize(rows).mean_effective_keys, (4 + 1) / 2.0, 1e-14);
  EXPECT_DOUBLE_EQ(Summarize(rows).mean_contribution, 3.5);
}

TEST(HeadStatisticsTest, TheSaturatedShareIsOfRowsWithAChoice) {
  const std::vector<RowStatistics> rows = {Row(1, 0, 1, 0), Row(2, 0, 1, 0),
                                           Row(3, 0, 0.5, 0.9)};
  EXPECT_DOUBLE_EQ(Summarize(rows).saturated_share, 0.5);
}

// A head of 200 rows of 9 keys whose logits differ.
std::vector<RowStatistics> Head(double entropy_ratio, double logit_std) {
  std::vector<RowStatistics> rows(200, LogitRow(9, 0, logit_std));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].entropy = entropy_ratio * std::log(9.0);
    rows[i].top_key = static_cast<int64_t>(i % 9);
  }
  return rows;
}

TEST(HeadStatisticsTest, ACollapsedHeadLooksAtOneKeyOnly) {
  std::vector<RowStatistics> rows = Head(0.049, 3);
  for (size_t i = 0; i < 198; ++i) rows[i].top_key = 5;
  const HeadStatistics head = Summarize(rows);
  EXPECT_EQ(head.dead, DeadHead::kCollapsed);
  EXPECT_EQ(head.dead_reason,
            "key 5 is the top key of 99.0 % of the rows, mean entropy ratio "
            "0.049 over 200 rows");
  // The near misses.
  rows[0].top_key = 4;
  EXPECT_EQ(Summarize(rows).dead, DeadHead::kNo);
  EXPECT_EQ(Summarize(rows).dead_reason, "");
  rows = Head(0.051, 3);
  for (RowStatistics& row : rows) row.top_key = 5;
  EXPECT_EQ(Summarize(rows).dead, DeadHead::kNo);
}

TEST(HeadStatisticsTest, AnUninformativeHeadLooksAtAllKeysAlike) {
  const HeadStatistics head = Summarize(Head(0.9991, 9e-4));
  EXPECT_EQ(head.dead, DeadHead::kUninformative);
  EXPECT_EQ(head.dead_reason,
            "mean entropy ratio 0.999100, standard deviation of the logits "
            "0.0009 over 200 rows");
  EXPECT_EQ(Summarize(Head(0.9989, 9e-4)).dead, DeadHead::kNo);
  EXPECT_EQ(Summarize(Head(0.9991, 1.1e-3)).dead, DeadHead::kNo);
}

TEST(HeadStatisticsTest, ConstantLogitsAreNamedAsSuch) {
  std::vector<RowStatistics> rows(8, LogitRow(4, 2.5, 0));
  EXPECT_EQ(Summarize(rows).dead, DeadHead::kConstantLogits);
  EXPECT_EQ(Summarize(rows).dead_reason,
            "every visible logit is 2.5 over 8 rows");
  rows[1] = LogitRow(4, 2.5, 1e-2);
  EXPECT_EQ(Summarize(rows).dead, DeadHead::kNo);
}

TEST(HeadStatisticsTest, AHeadWithoutAChoiceOrWithoutLogitsIsNotJudged) {
  EXPECT_EQ(Summarize(std::vector<RowStatistics>(9, LogitRow(1, 2, 0))).dead,
            DeadHead::kNo);
  // As linear attention leaves its rows.
  EXPECT_EQ(Summarize(std::vector<RowStatistics>(9, Row(4, -1, 0, 0))).dead,
            DeadHead::kNo);
}

TEST(HeadStatisticsTest, FewerThanEightRowsAreTooFewForAVerdict) {
  std::vector<RowStatistics> peaked = Head(0, 3);
  for (RowStatistics& row : peaked) row.top_key = 5;
  const std::vector<RowStatistics> heads[] = {
      peaked, Head(0.9999, 1e-4),
      std::vector<RowStatistics>(200, LogitRow(4, 2.5, 0))};
  for (std::vector<RowStatistics> rows : heads) {
    rows.resize(8);
    EXPECT_NE(Summarize(rows).dead, DeadHead::kNo);
    rows.resize(7);
    // Rows that see no key tell nothing.
    rows.resize(20);
    EXPECT_EQ(Summarize(rows).dead, DeadHead::kNo);
    EXPECT_EQ(Summarize(rows).dead_reason, "");
    rows.resize(1);
    EXPECT_EQ(Summarize(rows).dead, DeadHead::kNo);
  }
}

}  // namespace
}  // namespace attn
