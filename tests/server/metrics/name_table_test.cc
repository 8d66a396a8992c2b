#include "server/metrics/name_table.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/metrics/once_made.h"

namespace attn {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<int> Value(int value) { return std::make_unique<int>(value); }

TEST(NameTable, AValueIsMadeOnceAndStays) {
  NameTable<int> table(3);
  EXPECT_EQ(table.Find("a"), nullptr);
  int* a = table.FindOrAdd("a", [] { return Value(1); });
  EXPECT_EQ(*table.FindOrAdd("b", [] { return Value(2); }), 2);
  EXPECT_EQ(table.FindOrAdd("a", [] { return Value(3); }), a);
  EXPECT_EQ(table.Find("a"), a);
  EXPECT_EQ(*a, 1);
}

TEST(NameTable, AFullTableMakesNothing) {
  NameTable<int> table(1);
  table.FindOrAdd("a", [] { return Value(1); });
  bool made = false;
  const auto make = [&made] {
    made = true;
    return Value(2);
  };
  EXPECT_EQ(table.FindOrAdd("b", make), nullptr);
  EXPECT_EQ(*table.FindOrAdd("a", make), 1);
  EXPECT_FALSE(made);
}

TEST(NameTable, NothingMadeTakesNoPlace) {
  NameTable<int> table(1);
  EXPECT_EQ(table.FindOrAdd("a", [] { return std::unique_ptr<int>(); }),
            nullptr);
  EXPECT_EQ(table.size(), 0U);
  EXPECT_NE(table.FindOrAdd("b", [] { return Value(1); }), nullptr);
}

TEST(NameTable, AllAreVisitedInTheOrderOfTheirArrival) {
  NameTable<int> table(9);
  for (const int i : {3, 1, 2}) {
    table.FindOrAdd(std::to_string(i), [i] { return Value(i); });
  }
  std::vector<int> seen;
  table.ForEach([&seen](int value) { seen.push_back(value); });
  EXPECT_THAT(seen, ElementsAre(3, 1, 2));
}

TEST(NameTable, ThreadsThatMeetAtANewNameShareItsValue) {
  constexpr int kThreads = 4;
  constexpr int kNames = 200;
  NameTable<int> table(kNames);
  std::atomic<int> made{0};
  std::vector<std::vector<int*>> seen(kThreads);
  std::vector<std::thread> threads;
  for (auto& of_thread : seen) {
    threads.emplace_back([&table, &made, &of_thread] {
      for (int i = 0; i < kNames; ++i) {
        of_thread.push_back(table.FindOrAdd(std::to_string(i), [&made, i] {
          ++made;
          return Value(i);
        }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, kNames);
  for (int i = 0; i < kNames; ++i) EXPECT_EQ(*seen[0][i], i);
  for (const auto& of_thread : seen) EXPECT_EQ(of_thread, seen[0]);
}

TEST(OnceMade, IsMadeWhenItIsFirstWanted) {
  OnceMade<int> once;
  EXPECT_EQ(once.get(), nullptr);
  int& value = once.GetOrMake([] { return Value(1); });
  EXPECT_EQ(&once.GetOrMake([] { return Value(2); }), &value);
  EXPECT_EQ(once.get(), &value);
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace attn
