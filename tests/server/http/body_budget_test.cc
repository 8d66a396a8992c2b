#include "server/http/body_budget.h"

#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(BodyBudgetTest, ItIsTakenToTheLastByteAndNoFurther) {
  BodyBudget budget(10);
  BodyBudget::Share six;
  BodyBudget::Share four;
  BodyBudget::Share one;
  EXPECT_TRUE(budget.Take(6, six));
  EXPECT_FALSE(budget.Take(5, four));
  EXPECT_TRUE(budget.Take(4, four));
  EXPECT_FALSE(budget.Take(1, one));
  EXPECT_TRUE(budget.Take(0, one));
  EXPECT_EQ(budget.taken(), 10);
}

TEST(BodyBudgetTest, AShareIsGivenBackOnceWhereverItWasMoved) {
  BodyBudget budget(10);
  {
    BodyBudget::Share first;
    ASSERT_TRUE(budget.Take(7, first));
    BodyBudget::Share second = std::move(first);
    BodyBudget::Share third;
    third = std::move(second);
    EXPECT_EQ(budget.taken(), 7);
  }
  EXPECT_EQ(budget.taken(), 0);
}

TEST(BodyBudgetTest, AnEmptyShareTakesThePlaceOfOneThatIsGivenBack) {
  BodyBudget budget(10);
  BodyBudget::Share share;
  ASSERT_TRUE(budget.Take(7, share));
  share = {};
  EXPECT_EQ(budget.taken(), 0);
}

TEST(BodyBudgetTest, ThreadsNeverTakeMoreThanThereIsAndGiveAllBack) {
  constexpr int64_t kBytes = 30;
  BodyBudget budget(kBytes);
  std::atomic<int64_t> held{0};
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2000; ++round) {
        BodyBudget::Share share;
        if (!budget.Take(10, share)) continue;
        if (held.fetch_add(10) + 10 > kBytes) exceeded = true;
        held -= 10;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(budget.taken(), 0);
}

}  // namespace
}  // namespace attn
