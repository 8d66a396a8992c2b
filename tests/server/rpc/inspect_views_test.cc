#include "server/rpc/inspect_views.h"

#include "gtest/gtest.h"

namespace attn {
namespace {

InspectedScores::Options OfLength(int64_t length) {
  InspectedScores::Options options;
  options.window = {{0, 1}, {0, 32}, {0, length}, {0, length}};
  options.compare_heads = true;
  return options;
}

// Statistics of a long call must not need the memory of its scores.
TEST(InspectedScores, ALargeWindowThatIsNotShownTakesNoMemory) {
  EXPECT_EQ(InspectedScores(OfLength(4096)).booked_bytes(), 0);
  EXPECT_EQ(InspectedScores(OfLength(64)).booked_bytes(), 32 * 64 * 64 * 4);
}

TEST(InspectedScores, AWindowThatIsShownTakesItsOwn) {
  InspectedScores::Options options = OfLength(4096);
  options.shown.weights = true;
  EXPECT_GE(InspectedScores(options).shown_bytes(),
            int64_t{32} * 4096 * 4096 * 4);
}

}  // namespace
}  // namespace attn
