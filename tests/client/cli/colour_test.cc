#include "client/cli/colour.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "gtest/gtest.h"

namespace attn {
namespace {

class ColourTest : public ::testing::Test {
 protected:
  ~ColourTest() override {
    SetColourChoice(ColourChoice::kAuto);
    if (terminal_ >= 0) close(terminal_);
    if (other_side_ >= 0) close(other_side_);
  }

  // A terminal of this process's own.
  int OpenTerminal() {
    other_side_ = posix_openpt(O_RDWR | O_NOCTTY);
    if (other_side_ < 0 || grantpt(other_side_) != 0 ||
        unlockpt(other_side_) != 0) {
      return -1;
    }
    terminal_ = open(ptsname(other_side_), O_RDWR | O_NOCTTY);
    return terminal_;
  }

  int terminal_ = -1;
  int other_side_ = -1;
};

TEST_F(ColourTest, AFileIsNotPaintedUnlessAlways) {
  const int file = open("/dev/null", O_WRONLY);
  EXPECT_FALSE(WantsColourOn(file));
  SetColourChoice(ColourChoice::kAlways);
  EXPECT_TRUE(WantsColourOn(file));
  close(file);
}

TEST_F(ColourTest, ATerminalIsPaintedUnlessItOrItsUserSaysNo) {
  const int terminal = OpenTerminal();
  if (terminal < 0) GTEST_SKIP() << "there are no terminals: no /dev/pts";
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  EXPECT_TRUE(WantsColourOn(terminal));
  SetColourChoice(ColourChoice::kNever);
  EXPECT_FALSE(WantsColourOn(terminal));
  SetColourChoice(ColourChoice::kAuto);
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(WantsColourOn(terminal));
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(WantsColourOn(terminal));
  unsetenv("TERM");
  EXPECT_FALSE(WantsColourOn(terminal));
}

TEST_F(ColourTest, WithoutColourTextStaysAsItIs) {
  EXPECT_EQ(Painted("attn:", TextColour::kError, false), "attn:");
  EXPECT_EQ(Painted("attn:", TextColour::kError, true),
            "\x1b[1;31mattn:\x1b[0m");
}

}  // namespace
}  // namespace attn
