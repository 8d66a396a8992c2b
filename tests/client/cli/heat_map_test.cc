#include "client/cli/heat_map.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNoKey = -std::numeric_limits<double>::infinity();

TEST(HeatMapTest, DrawsPanelsSideBySide) {
  const std::vector<double> logits = {0, kNoKey, 2, 8};
  const std::vector<double> weights = {1, 0, 0.25, 0.75};
  const std::vector<bool> visible = {true, false, true, true};
  EXPECT_EQ(
      RenderHeatMap({{.title = "logits", .values = logits, .visible = &visible},
                     {.title = "w", .values = weights, .visible = &visible}},
                    {"He", "ran"}, {"0", "1"}),
      "      logits   w\n"
      "      0        0\n"
      " He   ▁·       █·\n"
      "ran   ▃█       ▁▆\n"
      "logits: ▁ 0  █ 8\n"
      "w: ▁ 0.25  █ 1\n"
      "· masked\n");
}

TEST(HeatMapTest, ASmallWeightDoesNotLookMasked) {
  const std::vector<double> values = {0, 1};
  const std::vector<bool> visible = {true, true};
  const std::string map =
      RenderHeatMap({{.title = "w", .values = values, .visible = &visible}},
                    {"q"}, {"0", "1"});
  EXPECT_THAT(map, HasSubstr("q   ▁█\n"));
}

TEST(HeatMapTest, DrawsNotANumberAndConstants) {
  const std::vector<double> values = {std::numeric_limits<double>::quiet_NaN(),
                                      3};
  const std::vector<bool> visible = {true, true};
  EXPECT_THAT(
      RenderHeatMap({{.title = "w", .values = values, .visible = &visible}},
                    {"q"}, {"0", "1"}),
      HasSubstr("q   ?█\n"));
}

TEST(HeatMapTest, SaysWhatIsLeftOut) {
  const std::vector<double> values(6, 1.0);
  const std::vector<bool> visible(6, true);
  const std::string map = RenderHeatMap(
      {{.title = "w", .values = values, .visible = &visible}}, {"a", "b"},
      {"0", "1", "2"}, {.max_rows = 1, .max_columns = 2});
  EXPECT_THAT(map, HasSubstr("a   ██\n"));
  EXPECT_THAT(map, Not(HasSubstr("b ")));
  EXPECT_THAT(map, HasSubstr("(the first 1 of 2 rows, 2 of 3 columns)\n"));
}

TEST(HeatMapTest, SaysWhenNothingIsVisible) {
  const std::vector<double> values = {kNoKey};
  const std::vector<bool> visible = {false};
  EXPECT_THAT(
      RenderHeatMap({{.title = "w", .values = values, .visible = &visible}},
                    {"q"}, {"0"}),
      HasSubstr("w: nothing visible\n"));
}

TEST(HeatMapTest, ColoursOnlyWhereAsked) {
  const std::vector<double> values = {0, 1};
  const std::vector<bool> visible = {false, true};
  const std::vector<HeatMapPanel> panels = {
      {.title = "w", .values = values, .visible = &visible}};
  EXPECT_THAT(RenderHeatMap(panels, {"q"}, {"0", "1"}, {.colour = true}),
              HasSubstr("\x1b[38;5;238m·\x1b[0m\x1b[38;5;226m█\x1b[0m"));
  EXPECT_THAT(RenderHeatMap(panels, {"q"}, {"0", "1"}), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace attn
