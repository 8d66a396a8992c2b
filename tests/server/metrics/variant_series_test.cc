#include "server/metrics/variant_series.h"

#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;

// A series that knows whose it is.
struct Named {
  std::string name;
};

// Notes what is made.
class VariantSeriesTest : public ::testing::Test {
 protected:
  VariantSeries<Named> Make(const std::vector<std::string>& announced,
                            VariantBudget* budget) {
    return VariantSeries<Named>(
        announced,
        [this](const std::string& variant) {
          made_.push_back(variant);
          return Named{variant};
        },
        budget);
  }

  std::vector<std::string> made_;
};

TEST_F(VariantSeriesTest, OnlyOtherIsMadeBeforeThereIsAVariant) {
  VariantBudget budget(5);
  const auto series = Make({"a", "b"}, &budget);
  EXPECT_THAT(made_, ElementsAre("other"));
}

TEST_F(VariantSeriesTest, EachAnnouncedVariantIsMadeOnceAndStays) {
  VariantBudget budget(5);
  auto series = Make({"a", "b"}, &budget);
  const Named* a = &series.Of("a");
  EXPECT_EQ(a->name, "a");
  EXPECT_EQ(series.Of("b").name, "b");
  EXPECT_EQ(&series.Of("a"), a);
  EXPECT_THAT(made_, ElementsAre("other", "a", "b"));
}

TEST_F(VariantSeriesTest, WhatWasNotAnnouncedIsOther) {
  VariantBudget budget(5);
  auto series = Make({"a"}, &budget);
  EXPECT_EQ(series.Of("junk").name, "other");
  EXPECT_EQ(series.Of("").name, "other");
  EXPECT_EQ(series.Of("a").name, "a");
}

TEST_F(VariantSeriesTest, BeyondTheBudgetAVariantIsOtherForGood) {
  VariantBudget budget(2);
  auto series = Make({"a", "b", "c", "d"}, &budget);
  EXPECT_EQ(series.Of("c").name, "c");
  EXPECT_EQ(series.Of("a").name, "a");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(series.Of("b").name, "other");
    EXPECT_EQ(series.Of("d").name, "other");
    EXPECT_EQ(series.Of("a").name, "a");
  }
  EXPECT_THAT(made_, ElementsAre("other", "c", "a"));
}

TEST_F(VariantSeriesTest, OneNameTakesOnePlaceInAllOfThem) {
  VariantBudget budget(2);
  auto attend = Make({"a", "b", "c"}, &budget);
  auto plan = Make({"a", "b", "c"}, &budget);
  EXPECT_EQ(attend.Of("a").name, "a");
  EXPECT_EQ(plan.Of("b").name, "b");
  EXPECT_EQ(attend.Of("b").name, "b");
  EXPECT_EQ(plan.Of("a").name, "a");
  EXPECT_EQ(plan.Of("c").name, "other");
}

TEST(VariantSeries, ThreadsThatMeetAtANewVariantShareItsSeries) {
  constexpr int kThreads = 4;
  constexpr int kVariants = 50;
  std::vector<std::string> names;
  for (int i = 0; i < kVariants; ++i) names.push_back(std::to_string(i));
  std::atomic<int> made{0};
  VariantBudget budget(kVariants);
  VariantSeries<Named> series(
      names,
      [&made](const std::string& variant) {
        ++made;
        return Named{variant};
      },
      &budget);
  std::vector<std::vector<const Named*>> seen(kThreads);
  std::vector<std::thread> threads;
  for (auto& of_thread : seen) {
    threads.emplace_back([&series, &names, &of_thread] {
      for (const std::string& name : names) {
        of_thread.push_back(&series.Of(name));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, kVariants + 1);
  for (const auto& of_thread : seen) EXPECT_EQ(of_thread, seen[0]);
}

}  // namespace
}  // namespace attn
