#include "server/rpc/head_health.h"

#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kHeadRows = 16;
constexpr int64_t kHeadKeys = 64;

// The row that softmax makes of logits.
RowStatistics SoftmaxRow(const std::vector<double>& logits) {
  RowStatistics row;
  row.visible_keys = static_cast<int64_t>(logits.size());
  row.logit_min = logits[0];
  row.logit_max = logits[0];
  double sum = 0;
  for (const double logit : logits) {
    sum += std::exp(logit);
    row.logit_min = std::min(row.logit_min, logit);
    row.logit_max = std::max(row.logit_max, logit);
    row.logit_mean += logit / static_cast<double>(logits.size());
  }
  row.lse = std::log(sum);
  double variance = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double weight = std::exp(logits[i]) / sum;
    row.entropy -= weight * std::log(weight);
    variance += std::pow(logits[i] - row.logit_mean, 2);
    if (weight > row.peak_weight) {
      row.peak_weight = weight;
      row.top_key = static_cast<int64_t>(i);
    }
  }
  row.logit_std = std::sqrt(variance / static_cast<double>(logits.size()));
  return row;
}

// Logits of normal numbers times `spread`, and `bonus` for one key.
std::vector<RowStatistics> RandomHead(double spread, double bonus,
                                      std::mt19937& random) {
  std::normal_distribution<double> normal;
  std::vector<RowStatistics> head;
  for (int64_t row = 0; row < kHeadRows; ++row) {
    std::vector<double> logits(kHeadKeys);
    for (double& logit : logits) logit = spread * normal(random);
    logits[7] += bonus;
    head.push_back(SoftmaxRow(logits));
  }
  return head;
}

std::vector<RowStatistics> WithoutMoments(std::vector<RowStatistics> rows) {
  for (RowStatistics& row : rows) {
    row.logit_mean = 0;
    row.logit_std = 0;
  }
  return rows;
}

DeadHeadCounts DeadCounts(const std::vector<RowStatistics>& rows) {
  return CountDeadHeads(rows, kHeadRows, true);
}
DeadHeadCounts CountsWithoutStatistics(const std::vector<RowStatistics>& rows) {
  return CountDeadHeads(WithoutMoments(rows), kHeadRows, false);
}

TEST(CountDeadHeads, ALivelyHeadIsNotCounted) {
  std::mt19937 random(1);
  const auto head = RandomHead(1, 0, random);
  EXPECT_THAT(DeadCounts(head), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(CountsWithoutStatistics(head), ElementsAre(0, 0, 0, 0));
}

TEST(CountDeadHeads, EachReasonIsCountedApart) {
  std::mt19937 random(2);
  std::vector<RowStatistics> rows = RandomHead(1, 20, random);
  for (const auto& head :
       {RandomHead(1e-5, 0, random), RandomHead(1, 0, random),
        RandomHead(0, 0, random)}) {
    rows.insert(rows.end(), head.begin(), head.end());
  }
  EXPECT_EQ(DeadCounts(rows)[static_cast<size_t>(DeadHead::kCollapsed)], 1);
  EXPECT_EQ(DeadCounts(rows)[static_cast<size_t>(DeadHead::kUninformative)], 1);
  EXPECT_EQ(DeadCounts(rows)[static_cast<size_t>(DeadHead::kConstantLogits)],
            1);
  EXPECT_EQ(CountsWithoutStatistics(rows), DeadCounts(rows));
}

TEST(CountDeadHeads, ADeviationThatIsNotKnownIsNotTakenForSmall) {
  // Logits of one key in 64 differ by 0.004: they deviate by 0.0005, which is
  // uninformative, but half their range is 0.002.
  std::vector<double> logits(kHeadKeys, 0.0);
  logits[0] = 0.004;
  const std::vector<RowStatistics> head(kHeadRows, SoftmaxRow(logits));
  EXPECT_EQ(DeadCounts(head)[static_cast<size_t>(DeadHead::kUninformative)], 1);
  EXPECT_THAT(CountsWithoutStatistics(head), ElementsAre(1, 0, 0, 0));
}

TEST(CountDeadHeads, AFewRowsAreNoHead) {
  std::mt19937 random(3);
  std::vector<RowStatistics> head = RandomHead(0, 0, random);
  head.resize(7);
  EXPECT_THAT(CountDeadHeads(head, 7, true), ElementsAre(0, 0, 0, 0));
  head = RandomHead(0, 0, random);
  for (size_t i = 7; i < head.size(); ++i) head[i] = RowStatistics{};
  EXPECT_EQ(DeadCounts(head)[static_cast<size_t>(DeadHead::kConstantLogits)],
            0);
}

TEST(CountDeadHeads, RowsWithoutLogitsGiveNoVerdict) {
  RowStatistics row;
  row.visible_keys = 4;
  const std::vector<RowStatistics> head(kHeadRows, row);
  EXPECT_THAT(DeadCounts(head), ElementsAre(0, 0, 0, 0));
}

// From heads that collapse to heads that mix all keys alike.
TEST(CountDeadHeads, NoHeadThatTheFullSummaryCallsDeadIsMissed) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> exponent(-6, 1);
  std::uniform_real_distribution<double> bonus(0, 15);
  DeadHeadCounts expected{};
  std::vector<RowStatistics> rows;
  for (int i = 0; i < 400; ++i) {
    const auto head = RandomHead(std::pow(10, exponent(random)),
                                 i % 2 == 0 ? 0 : bonus(random), random);
    ++expected[static_cast<size_t>(Summarize(head).dead)];
    rows.insert(rows.end(), head.begin(), head.end());
  }
  const DeadHeadCounts counts = DeadCounts(rows);
  for (const DeadHead dead : {DeadHead::kCollapsed, DeadHead::kUninformative,
                              DeadHead::kConstantLogits}) {
    const auto place = static_cast<size_t>(dead);
    EXPECT_EQ(counts[place], expected[place]) << place;
  }
  EXPECT_GT(expected[static_cast<size_t>(DeadHead::kCollapsed)], 10);
  EXPECT_GT(expected[static_cast<size_t>(DeadHead::kUninformative)], 10);
}

}  // namespace
}  // namespace attn
