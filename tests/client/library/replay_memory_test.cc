// What a ReplayHistory takes of the heap, whatever it is given and told to
// forget.
#include <cstdint>
#include <optional>

#include "client/library/replay_history.h"
#include "gtest/gtest.h"
#include "tests/client/library/live_heap.h"

namespace attn {
namespace {

constexpr int64_t kRounds = 1000;
constexpr int64_t kHeads = 2;
constexpr int64_t kDim = 32;
// Of k and v, in F32.
constexpr int64_t kRowBytes = 2 * kHeads * kDim * 4;
constexpr int64_t kAtOnce = 64;
// What stands beside the rows: objects of pages, lists of them, malloc's own.
constexpr int64_t kBesideEachPage = 512;
constexpr int64_t kNoBound = int64_t{1} << 40;

void AppendRows(ReplayHistory& history, int64_t tokens,
                DType dtype = DType::kF32) {
  const HostTensor rows(dtype, {1, kHeads, tokens, kDim});
  StepTensors step;
  step.k = rows.view();
  step.v = rows.view();
  history.Append(step);
}

class ReplayMemory : public ::testing::Test {
 protected:
  // No more than the tokens that are left and one page, however many came and
  // went; and that it says so.
  void ExpectNoMoreThanItsTokens(int64_t page_tokens = kAtOnce) {
    const int64_t rows = (history_.length() + kAtOnce) * kRowBytes;
    const int64_t pages = history_.length() / page_tokens + 2;
    const int64_t heap = LiveHeapBytes() - before_;
    EXPECT_LE(heap, rows + pages * kBesideEachPage);
    EXPECT_LE(history_.bytes(), rows);
    EXPECT_LE(heap, history_.bytes() + pages * kBesideEachPage);
  }

  const int64_t before_ = LiveHeapBytes();
  ReplayHistory history_{1, kNoBound};
};

TEST_F(ReplayMemory, OfRollbacksDoesNotGrow) {
  for (int64_t round = 0; round < kRounds; ++round) {
    AppendRows(history_, kAtOnce);
    history_.Truncate(round + 1);
  }
  ExpectNoMoreThanItsTokens();
}

TEST_F(ReplayMemory, OfRollbacksWithCopiesThatAreGoneDoesNotGrow) {
  for (int64_t round = 0; round < kRounds; ++round) {
    AppendRows(history_, kAtOnce);
    const ReplayHistory shared = history_.Share();
    history_.Truncate(round + 1);
  }
  ExpectNoMoreThanItsTokens();
}

TEST_F(ReplayMemory, OfACopyThatGoesOnDoesNotGrow) {
  for (int64_t round = 0; round < kRounds; ++round) {
    AppendRows(history_, kAtOnce);
    ReplayHistory shared = history_.Share();
    shared.Truncate(round + 1);
    history_ = std::move(shared);
  }
  ExpectNoMoreThanItsTokens();
}

// Every token has a page of its own then.
TEST_F(ReplayMemory, OfTokensOfManyTypesDoesNotGrow) {
  for (int64_t round = 0; round < kRounds; ++round) {
    AppendRows(history_, kAtOnce, round % 2 == 0 ? DType::kF32 : DType::kF16);
    history_.Truncate(round + 1);
  }
  ExpectNoMoreThanItsTokens(/*page_tokens=*/1);
}

TEST_F(ReplayMemory, IsWithinTheBoundWhileItIsKept) {
  constexpr int64_t kBound = 100 * kRowBytes;
  history_ = ReplayHistory(1, kBound);
  for (int64_t round = 0; round < kRounds && history_.complete(); ++round) {
    AppendRows(history_, kAtOnce / 2);
    EXPECT_LE(history_.bytes(), kBound);
    history_.Truncate(round + 1);
  }
  EXPECT_FALSE(history_.complete());
  // 68 tokens stayed, and 32 more were as much as may be.
  EXPECT_EQ(history_.length(), 70);
  EXPECT_LE(LiveHeapBytes() - before_, 2 * kBesideEachPage);
}

}  // namespace
}  // namespace attn
