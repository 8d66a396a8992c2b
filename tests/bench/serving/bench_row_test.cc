#include "tests/bench/serving/bench_row.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/bench/serving/rounds.h"
#include "tests/bench/statistics.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

BenchRow SomeRow() {
  BenchRow row("tiny", "beside an echo");
  row.Add("alone", 40, "us");
  row.AddAtMost("above the echo", 12.34, "us", 15);
  row.AddAtLeast("  share", 0.5, "", 0.9);
  row.series.emplace_back("alone");
  row.series.back().values = {39, 40, 41};
  return row;
}

TEST(BenchRowTest, TextSaysWhetherAGoalIsMet) {
  const std::string text = ToText(SomeRow());
  EXPECT_THAT(text, HasSubstr("12.3 us         goal <= 15 us, met"));
  EXPECT_THAT(text, HasSubstr("goal >= 0.9, missed"));
}

TEST(BenchRowTest, AGoalIsMetAtItsBound) {
  BenchRow row("tiny", "");
  row.AddAtMost("most", 3, "x", 3);
  row.AddAtLeast("least", 3, "x", 3);
  EXPECT_THAT(ToText(row), Not(HasSubstr("missed")));
}

TEST(BenchRowTest, MarkdownHasTheFiguresWithGoals) {
  EXPECT_EQ(ToMarkdown({SomeRow()}),
            "| row | | measured | goal |\n"
            "|---|---|---|---|\n"
            "| `tiny` | above the echo | 12.3 us | <= 15 us |\n"
            "| `tiny` | share | 0.5 | >= 0.9 |\n");
}

TEST(BenchRowTest, JsonHasEveryRound) {
  const nlohmann::ordered_json json = ToJson({SomeRow()})["rows"][0];
  EXPECT_EQ(json["figures"][1]["goal"]["at_most"], 15);
  EXPECT_EQ(json["figures"][1]["met"], true);
  EXPECT_EQ(json["figures"][2]["met"], false);
  EXPECT_THAT(json["rounds"]["alone"].get<std::vector<double>>(),
              ElementsAre(39, 40, 41));
}

TEST(BenchRowTest, ARowThatWasLeftOutSaysWhy) {
  BenchRow row("torch", "");
  row.skipped = "no root";
  EXPECT_THAT(ToText(row), HasSubstr("SKIPPED: no root"));
}

TEST(RoundsTest, EverySecondRoundGoesBackwards) {
  std::string order;
  const auto mark = [&order](char name) {
    return [&order, name] {
      order += name;
      return 1.0;
    };
  };
  std::vector<BenchSeries> series = {{"a", mark('a')}, {"b", mark('b')}};
  MeasureInRounds(3, series);
  EXPECT_EQ(order, "abbaab");
  EXPECT_THAT(series[0].values, ElementsAre(1, 1, 1));
}

TEST(StatisticsTest, RatiosAndDifferencesAreOfOneRound) {
  // The second round was ten times slower for both.
  const std::vector<double> a = {3, 30, 3};
  const std::vector<double> b = {1, 10, 2};
  EXPECT_EQ(MedianRatio(a, b), 3);
  EXPECT_EQ(MedianDifference(a, b), 2);
}

}  // namespace
}  // namespace attn
