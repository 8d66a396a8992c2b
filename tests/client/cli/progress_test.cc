#include "client/cli/progress.h"

#include <string>
#include <vector>

#include "client/cli/waiting_line.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A terminal whose clock the test moves.
class ProgressTest : public ::testing::Test {
 protected:
  ProgressTerminal Terminal(size_t width = 80) {
    return {.write =
                [this](absl::string_view text) { written_.emplace_back(text); },
            .width = width,
            .now = [this] { return now_; }};
  }
  void Pass(absl::Duration time) { now_ += time; }

  absl::Time now_ = absl::UnixEpoch();
  std::vector<std::string> written_;
};

TEST_F(ProgressTest, ALineIsWrittenOverAndTakenAway) {
  ProgressLine line(Terminal());
  line.Show("one");
  Pass(absl::Seconds(1));
  line.Show("two");
  line.Clear();
  EXPECT_THAT(written_, ElementsAre("\rone\x1b[K", "\rtwo\x1b[K", "\r\x1b[K"));
}

TEST_F(ProgressTest, TheLineGoesWithItsOwner) {
  {
    ProgressLine line(Terminal());
    line.Show("one");
  }
  EXPECT_THAT(written_, ElementsAre("\rone\x1b[K", "\r\x1b[K"));
}

TEST_F(ProgressTest, ItIsDrawnTenTimesASecondAtMost) {
  ProgressLine line(Terminal());
  for (int i = 0; i < 1000; ++i) {
    line.Show("x");
    Pass(absl::Milliseconds(1));
  }
  EXPECT_LE(written_.size(), 10U);
  EXPECT_GE(written_.size(), 9U);
}

TEST_F(ProgressTest, NothingThatWasNotDrawnIsTakenAway) {
  ProgressLine line(Terminal());
  line.Clear();
  EXPECT_THAT(written_, IsEmpty());
}

TEST_F(ProgressTest, ItNeverWrapsNorBreaks) {
  ProgressLine line(Terminal(/*width=*/6));
  line.Show("é\nüöxyz");
  EXPECT_THAT(written_, ElementsAre("\ré üöx\x1b[K"));
}

TEST_F(ProgressTest, WithoutATerminalThereIsSilence) {
  ProgressLine line{ProgressTerminal()};
  line.Show("one");
  line.Clear();
  ProgressBar bar("check", 3, ProgressTerminal());
  bar.Show(1);
  const WaitingLine waiting("attend", ProgressTerminal());
}

TEST_F(ProgressTest, ACallThatIsSoonDoneNeedsNoWords) {
  { const WaitingLine waiting("attend", Terminal()); }
  EXPECT_THAT(written_, IsEmpty());
}

// 30 columns are all of the work.
TEST_F(ProgressTest, ABarIsAsLongAsTheWorkIsDone) {
  ProgressBar bar("check", 4, Terminal());
  bar.Show(1, "sdpa/a");
  Pass(absl::Seconds(1));
  bar.Show(4);
  Pass(absl::Seconds(1));
  bar.Show(9);  // more than all
  ASSERT_EQ(written_.size(), 3U);
  EXPECT_THAT(written_[0], HasSubstr("check [" + std::string(7, '=') + ">" +
                                     std::string(22, ' ') + "] 1/4 sdpa/a"));
  EXPECT_THAT(written_[1], HasSubstr("[" + std::string(30, '=') + "] 4/4"));
  EXPECT_THAT(written_[2], HasSubstr("[" + std::string(30, '=') + "]"));
}

}  // namespace
}  // namespace attn
