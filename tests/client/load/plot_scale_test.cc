#include "client/load/plot_scale.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Texts(const PlotScale& scale) {
  std::vector<std::string> texts;
  for (const PlotScale::Tick& tick : scale.ticks()) texts.push_back(tick.text);
  return texts;
}

TEST(PlotScale, LinearScalesBeginAtZeroAndEndAtATick) {
  const PlotScale scale(PlotScaleKind::kLinear, PlotUnit::kNumber, 70, 470);
  EXPECT_THAT(Texts(scale),
              ElementsAre("0", "100", "200", "300", "400", "500"));
  EXPECT_DOUBLE_EQ(scale.At(0), 0);
  EXPECT_DOUBLE_EQ(scale.At(250), 0.5);
  EXPECT_DOUBLE_EQ(scale.At(500), 1);
}

TEST(PlotScale, LogScalesGiveEveryFactorTheSameRoom) {
  const PlotScale scale(PlotScaleKind::kLog, PlotUnit::kTime, 1e5, 1e9);
  EXPECT_THAT(Texts(scale),
              ElementsAre("100 us", "1 ms", "10 ms", "100 ms", "1 s"));
  EXPECT_NEAR(scale.At(1e6) - scale.At(1e5), scale.At(1e9) - scale.At(1e8),
              1e-12);
}

TEST(PlotScale, NarrowLogScalesHaveTicksBetweenThePowersOfTen) {
  const PlotScale scale(PlotScaleKind::kLog, PlotUnit::kTime, 1.2e6, 8e6);
  EXPECT_THAT(Texts(scale), ElementsAre("1 ms", "2 ms", "5 ms", "10 ms"));
}

TEST(PlotScale, FurtherNinesHaveTheSameRoom) {
  const PlotScale scale(PlotScaleKind::kNines, PlotUnit::kPercentile, 0, 99.95);
  EXPECT_THAT(Texts(scale),
              ElementsAre("0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"));
  EXPECT_NEAR(scale.At(99) - scale.At(90), 0.25, 1e-9);
  EXPECT_NEAR(scale.At(99.9) - scale.At(99), 0.25, 1e-9);
  EXPECT_DOUBLE_EQ(scale.At(0), 0);
}

TEST(PlotScale, ASingleValueStillHasARange) {
  for (const PlotScaleKind kind :
       {PlotScaleKind::kLinear, PlotScaleKind::kLog, PlotScaleKind::kNines}) {
    for (const double value : {0.0, 1.0, 50.0, 99.0}) {
      const PlotScale scale(kind, PlotUnit::kNumber, value, value);
      EXPECT_TRUE(std::isfinite(scale.At(value)));
      EXPECT_GE(scale.ticks().size(), 2u);
      for (const PlotScale::Tick& tick : scale.ticks()) {
        EXPECT_GE(scale.At(tick.value), 0);
        EXPECT_LE(scale.At(tick.value), 1);
      }
    }
  }
}

TEST(PlotScale, ValuesBeyondStayAtTheEnds) {
  const PlotScale scale(PlotScaleKind::kLog, PlotUnit::kNumber, 1, 10);
  EXPECT_EQ(scale.At(0), 0);
  EXPECT_EQ(scale.At(1e9), 1);
}

}  // namespace
}  // namespace attn
