#include "client/draw/panel_grid.h"

#include <string>

#include "client/draw/figure_metrics.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

PanelGrid Chosen(int groups, int64_t queries, int64_t keys,
                 const FigureSize& size = {}) {
  const auto grid = ChoosePanelGrid(groups, 2, queries, keys, size);
  EXPECT_TRUE(grid.ok()) << grid.status();
  return grid.value_or(PanelGrid{});
}

TEST(PanelGridTest, AFewCellsAreSquareAndNotHuge) {
  const PanelGrid grid = Chosen(1, 8, 8);
  EXPECT_EQ(grid.cell_width, grid.cell_height);
  EXPECT_EQ(grid.cell_width, figure_metrics::kLargestCell);
  EXPECT_EQ(grid.key_step, 1);
}

TEST(PanelGridTest, CellsOfLongSequencesHoldSeveralKeys) {
  const PanelGrid grid = Chosen(1, 32768, 32768);
  EXPECT_GT(grid.key_step, 1);
  EXPECT_EQ(grid.cell_width, 1);
  // No more cells than pixels.
  EXPECT_LE(32768 / grid.key_step, 1600);
}

TEST(PanelGridTest, PooledCellsAreSquare) {
  for (const int64_t length : {700, 1000, 4096, 32768}) {
    const PanelGrid grid = Chosen(1, length, length);
    EXPECT_EQ(grid.query_step, grid.key_step) << length;
    EXPECT_EQ(grid.cell_width, grid.cell_height) << length;
  }
}

TEST(PanelGridTest, AFewQueriesOfManyKeysAreNotPooled) {
  const PanelGrid grid = Chosen(1, 100, 9000);
  EXPECT_EQ(grid.query_step, 1);
  EXPECT_GT(grid.key_step, 1);
}

TEST(PanelGridTest, TheCellSizeIsTaken) {
  const PanelGrid grid = Chosen(1, 300, 300, {.cell_size = 4});
  EXPECT_EQ(grid.cell_width, 4);
  EXPECT_EQ(grid.cell_height, 4);
  EXPECT_GT(grid.key_step, 1);
}

TEST(PanelGridTest, ASingleQueryIsNoMereLine) {
  const PanelGrid grid = Chosen(1, 1, 4096);
  EXPECT_GE(grid.cell_height, figure_metrics::kLeastPanel);
  EXPECT_EQ(grid.query_step, 1);
}

TEST(PanelGridTest, ManyHeadsStandInRows) {
  const PanelGrid grid = Chosen(16, 64, 64);
  EXPECT_GT(grid.group_columns, 1);
  EXPECT_GT(grid.group_rows, 1);
  EXPECT_GE(grid.group_columns * grid.group_rows, 16);
  EXPECT_LT(grid.group_columns * (grid.group_rows - 1), 16);
}

std::string ErrorOf(int groups, const FigureSize& size) {
  return ChoosePanelGrid(groups, 2, 8, 8, size).status().ToString();
}

TEST(PanelGridTest, SaysWhichSizeIsWrong) {
  EXPECT_THAT(ErrorOf(1, {.max_size = 10}), HasSubstr("--max-size: got 10"));
  EXPECT_THAT(ErrorOf(1, {.max_size = 1 << 20}), HasSubstr("--max-size"));
  EXPECT_THAT(ErrorOf(1, {.cell_size = -1}), HasSubstr("--cell-size"));
  EXPECT_THAT(ErrorOf(900, {}), HasSubstr("fewer --heads"));
}

}  // namespace
}  // namespace attn
