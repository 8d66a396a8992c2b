#include "client/cli/near_match.h"

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(NearMatchTest, ADistanceCountsWhatMustBeDone) {
  EXPECT_EQ(EditDistance("causal", "causal"), 0);
  EXPECT_EQ(EditDistance("casual", "causal"), 1);  // two neighbours swapped
  EXPECT_EQ(EditDistance("caual", "causal"), 1);
  EXPECT_EQ(EditDistance("caussal", "causal"), 1);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(NearMatchTest, ADistanceIsTheSameBothWays) {
  for (const char* a : {"attend", "atnted", "", "x", "plan"}) {
    for (const char* b : {"attend", "inspect", "info", ""}) {
      EXPECT_EQ(EditDistance(a, b), EditDistance(b, a)) << a << " " << b;
    }
  }
}

TEST(NearMatchTest, TheNearestNameIsMeant) {
  const std::vector<std::string> names = {"--causal", "--scale", "--score"};
  EXPECT_EQ(NearMatch("--casual", names), "--causal");
  EXPECT_EQ(NearMatch("--scal", names), "--scale");
}

TEST(NearMatchTest, TheOnlyNameThatBeginsSoIsMeant) {
  EXPECT_EQ(NearMatch("comp", {"completion", "check"}), "completion");
  EXPECT_EQ(NearMatch("layersomething", {"layer"}), "");
}

TEST(NearMatchTest, NothingIsMeantByWhatIsLikeNoName) {
  EXPECT_EQ(NearMatch("frobnicate", {"attend", "check", "plan"}), "");
  EXPECT_EQ(NearMatch("", {"attend"}), "");
  EXPECT_EQ(NearMatch(std::string(100'000, 'a'), {"attend"}), "");
}

}  // namespace
}  // namespace attn
