#include "client/load/load_plan.h"

#include "absl/strings/str_join.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(LoadPlan, StepsKeepTheirOrder) {
  EXPECT_THAT(ParseSteps("100,400,0.5").value(),
              ElementsAre(100.0, 400.0, 0.5));
}

TEST(LoadPlan, ARampGoesUpOrDownAtEqualDistances) {
  EXPECT_THAT(ParseRamp("100:500:5").value(),
              ElementsAre(100.0, 200.0, 300.0, 400.0, 500.0));
  EXPECT_THAT(ParseRamp("30:10:3").value(),
              ElementsAre(DoubleEq(30), DoubleEq(20), DoubleEq(10)));
}

TEST(LoadPlan, AStepDiffersFromItsBaseInTheRateAlone) {
  LoadOptions base{.arrivals = Arrivals::kConstant, .seed = 7};
  const auto steps = PlanSteps(base, {10, 20});
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[1].rate, 20);
  EXPECT_EQ(steps[1].seed, 7u);
  EXPECT_EQ(steps[1].arrivals, Arrivals::kConstant);
}

TEST(LoadPlan, ARangeHasALowerAndAHigherRate) {
  const RateRange range = ParseRateRange("10:2000", "--slo-range").value();
  EXPECT_EQ(range.from, 10);
  EXPECT_EQ(range.to, 2000);
}

TEST(LoadPlan, BadStepsAreRefusedByName) {
  const std::string too_many =
      absl::StrJoin(std::vector<int>(kMostSteps + 1, 5), ",");
  for (const std::string& text :
       {std::string(), std::string("100,"), std::string("1,x"),
        std::string("0"), std::string("-5"), std::string("nan"),
        std::string("1e7"), too_many}) {
    const auto status = ParseSteps(text).status();
    EXPECT_EQ(FieldOf(status), "--steps") << text;
  }
}

TEST(LoadPlan, BadRampsAreRefusedByName) {
  for (const char* text : {"", "100", "100:200", "100:200:1", "100:200:101",
                           "0:200:3", "100:x:3", "100:200:3:4", "1:2:2.5"}) {
    EXPECT_EQ(FieldOf(ParseRamp(text).status()), "--ramp") << text;
  }
}

TEST(LoadPlan, BadRangesAreRefusedByTheFlagsName) {
  for (const char* text : {"", "100", "200:100", "5:5", "0:5", "5:nan"}) {
    EXPECT_EQ(FieldOf(ParseRateRange(text, "--slo-range").status()),
              "--slo-range")
        << text;
  }
}

}  // namespace
}  // namespace attn
