#include "client/draw/axis_labels.h"

#include <string>

#include "client/draw/figure_metrics.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr int kSize = figure_metrics::kLabelSize;

FigureAxis Words(int64_t count, const std::string& word) {
  FigureAxis axis{.title = "key", .begin = 0, .count = count, .names = {}};
  for (int64_t i = 0; i < count; ++i) {
    axis.names.push_back(word + std::to_string(i));
  }
  return axis;
}

TEST(AxisLabelsTest, ShortNamesStandUnderTheirColumns) {
  const EstimatingRuler ruler;
  const AxisLabels labels = ColumnLabels(Words(5, "w"), 40, ruler);
  EXPECT_FALSE(labels.upward);
  ASSERT_EQ(labels.labels.size(), 5U);
  EXPECT_EQ(labels.labels[3].text, "w3");
  EXPECT_EQ(labels.labels[3].offset, 140);  // 3.5 columns
}

TEST(AxisLabelsTest, LongNamesAreTurned) {
  const EstimatingRuler ruler;
  const AxisLabels labels = ColumnLabels(Words(5, "interesting"), 40, ruler);
  EXPECT_TRUE(labels.upward);
  EXPECT_EQ(labels.labels.size(), 5U);
}

TEST(AxisLabelsTest, NamesOfSmallCellsAreThinnedOut) {
  const EstimatingRuler ruler;
  for (const int cell : {1, 3, 5, 9, 13, 14, 20}) {
    for (const AxisLabels& labels :
         {RowLabels(Words(90, "w"), cell, ruler),
          ColumnLabels(Words(90, "interesting"), cell, ruler)}) {
      ASSERT_FALSE(labels.labels.empty());
      for (size_t i = 1; i < labels.labels.size(); ++i) {
        EXPECT_GE(labels.labels[i].offset - labels.labels[i - 1].offset,
                  figure_metrics::LineOf(labels.size))
            << cell;
      }
    }
  }
}

TEST(AxisLabelsTest, NumbersNeverRunIntoEachOther) {
  const EstimatingRuler ruler;
  for (const int64_t step : {1, 2, 7, 64}) {
    for (const int cell : {1, 2, 5, 30}) {
      const FigureAxis axis{.title = "key",
                            .begin = 3,
                            .count = 500 * step,
                            .step = step,
                            .names = {}};
      const AxisLabels labels = ColumnLabels(axis, cell, ruler);
      ASSERT_FALSE(labels.labels.empty());
      for (size_t i = 1; i < labels.labels.size(); ++i) {
        const int apart = labels.labels[i].offset - labels.labels[i - 1].offset;
        EXPECT_GT(apart, ruler.Width(labels.labels[i].text, kSize))
            << step << " " << cell;
      }
    }
  }
}

TEST(AxisLabelsTest, IndicesBeyondTheNamesAreNumbered) {
  const EstimatingRuler ruler;
  FigureAxis axis = Words(4, "w");
  axis.names.resize(2);
  const AxisLabels labels = RowLabels(axis, 40, ruler);
  EXPECT_EQ(labels.labels[1].text, "w1");
  EXPECT_EQ(labels.labels[2].text, "2");
}

TEST(AxisLabelsTest, PooledCellsAreNumberedByTheirIndices) {
  const EstimatingRuler ruler;
  FigureAxis axis = Words(4000, "w");
  axis.step = 8;
  const AxisLabels labels = RowLabels(axis, 1, ruler);
  for (const AxisLabel& label : labels.labels) {
    EXPECT_NEAR(std::stod(label.text) / 8, label.offset, 1);
  }
}

TEST(AxisLabelsTest, VeryLongNamesAreCut) {
  const EstimatingRuler ruler;
  const AxisLabels labels =
      RowLabels(Words(2, std::string(1000, 'x')), 40, ruler);
  EXPECT_LE(labels.longest, figure_metrics::kLongestName);
}

}  // namespace
}  // namespace attn
