// Standard output that is closed, full or read no further, and interrupts.
#include "client/cli/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli/odd_server.h"
#include "tests/client/testing/program.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A line of bash in which $attn is the program. `completion` prints a lot and
// needs no server.
ProgramResult Bash(const std::string& line) {
  return RunProgram(
      {"/bin/bash", "-c", absl::StrCat("attn='", ATTN_PROGRAM, "'\n", line)});
}

TEST(StandardStreamsTest, AFullDiskIsAnError) {
  for (const char* command : {"completion bash", "--help", "--version"}) {
    const ProgramResult result =
        Bash(absl::StrCat("\"$attn\" ", command, " > /dev/full"));
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.err, AllOf(StartsWith("attn: standard output: "),
                                  HasSubstr("not complete")));
  }
}

TEST(StandardStreamsTest, AClosedOutputIsAnError) {
  const ProgramResult result = Bash("\"$attn\" completion bash >&-");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, StartsWith("attn: standard output: "));
}

// Else it could be a connection that is written to.
TEST(StandardStreamsTest, NothingElseGetsTheNumberOfAClosedStream) {
  const auto occupied = [] {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    OccupyStandardStreams();
    char byte = 0;
    const bool usable = write(STDOUT_FILENO, &byte, 1) != -1 ||
                        read(STDIN_FILENO, &byte, 1) != -1;
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    _exit(!usable && next > STDERR_FILENO ? 0 : 1);
  };
  EXPECT_EXIT(occupied(), ::testing::ExitedWithCode(0), "");
}

TEST(StandardStreamsTest, AReaderThatHasSeenEnoughIsNoError) {
  const ProgramResult result = Bash(
      "\"$attn\" completion bash | head -n 1; "
      "echo \"${PIPESTATUS[0]}\"");
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith("# bash completion"));
  // 141: ended by SIGPIPE, as other programs are; 0: all was written before.
  EXPECT_THAT(result.out,
              ::testing::AnyOf(HasSubstr("\n141\n"), HasSubstr("\n0\n")));
}

TEST(StandardStreamsTest, AnInterruptEndsACallThatWaits) {
  const OddServer silent("");
  const ProgramResult result = Bash(absl::StrCat(
      "timeout --preserve-status -s INT 1 \"$attn\" --timeout 10m --address ",
      silent.address(), " health"));
  EXPECT_EQ(result.exit_code, 130);  // 128 + SIGINT
  EXPECT_EQ(result.err, "");
}

TEST(StandardStreamsTest, NothingIsPaintedButOnATerminal) {
  EXPECT_THAT(Bash("\"$attn\" nonsense").err, StartsWith("attn: "));
  EXPECT_THAT(Bash("\"$attn\" --color always nonsense").err,
              StartsWith("\x1b[1;31mattn:\x1b[0m "));
  EXPECT_THAT(Bash("\"$attn\" --color never nonsense").err,
              StartsWith("attn: "));
}

}  // namespace
}  // namespace attn
