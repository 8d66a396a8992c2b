#include "client/draw/axis_ticks.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Labels(double low, double high, int most) {
  std::vector<std::string> labels;
  for (const ValueTick& tick : ValueTicks(low, high, most)) {
    labels.push_back(tick.label);
  }
  return labels;
}

TEST(AxisTicksTest, StepsAreOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_DOUBLE_EQ(NiceStep(1), 1);
  EXPECT_DOUBLE_EQ(NiceStep(1.1), 2);
  EXPECT_DOUBLE_EQ(NiceStep(3), 5);
  EXPECT_DOUBLE_EQ(NiceStep(7), 10);
  EXPECT_DOUBLE_EQ(NiceStep(0.03), 0.05);
}

TEST(AxisTicksTest, LabelsAreRoundNumbers) {
  EXPECT_THAT(Labels(0, 1, 6),
              ElementsAre("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(Labels(-3, 3, 4), ElementsAre("-2", "0", "2"));
}

TEST(AxisTicksTest, TicksLieWithinTheRangeAndDiffer) {
  const double huge = std::numeric_limits<double>::max();
  const std::pair<double, double> ranges[] = {
      {0, 1e-12}, {0, 0.0137}, {-5e5, 5e5}, {-huge, huge}, {0, 3e-310}};
  for (const auto& [low, high] : ranges) {
    const auto ticks = ValueTicks(low, high, 6);
    EXPECT_GE(ticks.size(), 2U) << high;
    EXPECT_LE(ticks.size(), 6U) << high;
    std::set<std::string> labels;
    for (const ValueTick& tick : ticks) {
      EXPECT_TRUE(std::isfinite(tick.value)) << high;
      EXPECT_GE(tick.value / 2, low / 2 * (1 + 1e-9)) << high;
      EXPECT_LE(tick.value / 2, high / 2 * (1 + 1e-9)) << high;
      labels.insert(tick.label);
    }
    EXPECT_EQ(labels.size(), ticks.size()) << high;
  }
}

TEST(AxisTicksTest, IndicesAreMultiplesOfTheStep) {
  EXPECT_THAT(IndexTicks(0, 11, 5), ElementsAre(0, 5, 10));
  EXPECT_THAT(IndexTicks(7, 10, 5), ElementsAre(10, 15));
  EXPECT_THAT(IndexTicks(7, 2, 5), ElementsAre());
}

}  // namespace
}  // namespace attn
