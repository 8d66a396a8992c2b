// Completion, asked as the shells ask for it.
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli/help_text.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

using Words = std::vector<std::string>;

Words LinesOf(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

std::string Quoted(const Words& words) {
  return absl::StrJoin(words, " ", [](std::string* out, const std::string& w) {
    absl::StrAppend(out, "'", w, "'");
  });
}

class CompletionTest : public ::testing::Test {
 protected:
  // What bash offers for the last of the words; "=" is a word of its own.
  Words Bash(const Words& words) const {
    const ProgramResult result = RunProgram(
        {"/bin/bash", "-c",
         absl::StrCat("cd '", folder_.path(), "'\nsource <('", ATTN_PROGRAM,
                      "' completion bash)\nCOMP_WORDS=(attn ", Quoted(words),
                      ")\nCOMP_CWORD=", words.size(),
                      "\n_attn\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n")});
    EXPECT_EQ(result.err, "");
    Words offered = LinesOf(result.out);
    std::sort(offered.begin(), offered.end());
    return offered;
  }

  // What zsh offers, from functions that stand where its own would.
  Words Zsh(const Words& words) const {
    const std::string script = absl::StrCat(
        R"(compdef() { :; }
compset() { [[ $1 == -P ]] || return 1; PREFIX=${PREFIX##${~2}}; }
compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- $*; }
_describe() { print -l -- ${${(P)argv[-1]}%%:*}; }
_files() { print -l -- FILES; }
source =()",
        ATTN_PROGRAM, " completion zsh)\nwords=(attn ", Quoted(words),
        ")\nCURRENT=", words.size() + 1, "\nPREFIX='", words.back(),
        "'\n_attn\n");
    const ProgramResult result = RunProgram({ZshProgram(), "-f", "-c", script});
    EXPECT_EQ(result.err, "");
    return LinesOf(result.out);
  }

  static std::string ZshProgram() {
    for (const char* path : {"/usr/bin/zsh", "/bin/zsh"}) {
      if (fs::exists(path)) return path;
    }
    ADD_FAILURE() << "install zsh: deploy/packages/test.txt has it";
    return "/bin/false";
  }

  ScratchFolder folder_;
};

TEST_F(CompletionTest, BashCompletesACommand) {
  EXPECT_THAT(Bash({"at"}), ElementsAre("attend"));
  EXPECT_THAT(Bash({"layer", ""}), ElementsAre("delete", "get", "list", "put"));
  EXPECT_THAT(Bash({"--address", "layer", "layer", "p"}), ElementsAre("put"));
  EXPECT_THAT(Bash({"session", ""}), ElementsAre("close", "fork", "get", "list",
                                                 "open", "rollback", "step"));
}

// Taken from the help, so that a new command cannot be forgotten.
TEST_F(CompletionTest, BashKnowsEveryCommandAndEveryOption) {
  Words commands = ListedCommands(HelpOf({}));
  std::sort(commands.begin(), commands.end());
  EXPECT_EQ(Bash({""}), commands);
  for (const CommandPath& command : EveryCommand()) {
    Words words = command;
    words.emplace_back("--");
    const Words offered = Bash(words);
    EXPECT_THAT(offered, IsSupersetOf(ListedOptions(HelpOf(command))))
        << absl::StrJoin(command, " ");
    EXPECT_THAT(offered, IsSupersetOf({"--address", "--json", "--timeout"}));
    EXPECT_EQ(std::count(offered.begin(), offered.end(), "--help"), 1);
  }
}

TEST_F(CompletionTest, BashCompletesOptionsAndTheirValues) {
  EXPECT_THAT(Bash({"attend", "--caus"}), ElementsAre("--causal"));
  EXPECT_THAT(Bash({"attend", "--dtype", ""}),
              ElementsAre("bf16", "f16", "f32", "f64"));
  EXPECT_THAT(Bash({"attend", "--dtype", "=", "b"}), ElementsAre("bf16"));
  EXPECT_THAT(Bash({"attend", "--dtype", "="}),
              ElementsAre("bf16", "f16", "f32", "f64"));
  EXPECT_THAT(Bash({"attend", "--dtype=b"}), ElementsAre("--dtype=bf16"));
  EXPECT_THAT(Bash({"session", "open", "--kv-dtype", "i"}),
              ElementsAre("int8"));
  EXPECT_THAT(Bash({"attend", "--causal", "=", "t"}), ElementsAre("top_left"));
  EXPECT_THAT(Bash({"--color", "al"}), ElementsAre("always"));
  EXPECT_THAT(Bash({"completion", ""}), ElementsAre("bash", "zsh"));
  // What any text may follow.
  EXPECT_THAT(Bash({"attend", "--scale", ""}), IsEmpty());
}

TEST_F(CompletionTest, BashCompletesTheLastOfAList) {
  EXPECT_THAT(Bash({"attend", "--want", "output,ls"}),
              ElementsAre("output,lse", "output,lse_with_sink"));
}

TEST_F(CompletionTest, AnOptionThatMayStandAloneTakesNoWord) {
  EXPECT_THAT(Bash({"attend", "--causal", "--heat"}), ElementsAre("--heatmap"));
}

TEST_F(CompletionTest, BashCompletesFilesWhereThereIsAFile) {
  folder_.Write("a file.npz", "");
  folder_.Write("a.npy", "");
  folder_.Write("b.npy", "");
  EXPECT_THAT(Bash({"attend", "--input", "a"}),
              ElementsAre("a file.npz", "a.npy"));
  EXPECT_THAT(Bash({"layer", "put", "x", "v", "=", "a."}),
              ElementsAre("a.npy"));
  EXPECT_THAT(Bash({"attend", "--program-table", "t", "=", "b"}),
              ElementsAre("b.npy"));
  EXPECT_THAT(Bash({"--tls-ca", "b"}), ElementsAre("b.npy"));
}

TEST_F(CompletionTest, TheScriptsAreInstalledWhereShellsLook) {
  const ProgramResult installed =
      RunProgram({CMAKE_PROGRAM, "--install", ATTN_BUILD_DIR, "--component",
                  "cli", "--prefix", folder_.path()});
  ASSERT_EQ(installed.exit_code, 0) << installed.err << installed.out;
  for (const auto& [shell, path] :
       {std::pair("bash", "share/bash-completion/completions/attn"),
        std::pair("zsh", "share/zsh/site-functions/_attn")}) {
    const ProgramResult differ =
        RunProgram({"/bin/bash", "-c",
                    absl::StrCat("'", ATTN_PROGRAM, "' completion ", shell,
                                 " | cmp - '", folder_.File(path), "'")});
    EXPECT_EQ(differ.exit_code, 0) << path << differ.err << differ.out;
  }
}

TEST_F(CompletionTest, ZshTakesTheScript) {
  const ProgramResult result =
      RunProgram({"/bin/bash", "-c",
                  absl::StrCat("'", ATTN_PROGRAM, "' completion zsh | ",
                               ZshProgram(), " -f -n /dev/stdin")});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(CompletionTest, ZshOffersWhatBashDoes) {
  EXPECT_THAT(Zsh({""}), UnorderedElementsAreArray(ListedCommands(HelpOf({}))));
  EXPECT_THAT(Zsh({"layer", ""}),
              UnorderedElementsAre("put", "get", "list", "delete"));
  EXPECT_THAT(Zsh({"attend", "--dtype", ""}),
              UnorderedElementsAre("f32", "f16", "bf16", "f64"));
  EXPECT_THAT(Zsh({"attend", "--causal=t"}),
              UnorderedElementsAre("top_left", "bottom_right"));
  EXPECT_THAT(Zsh({"attend", "--input", ""}), ElementsAre("FILES"));
  EXPECT_THAT(Zsh({"layer", "put", "x", "v=a"}), ElementsAre("FILES"));
  for (const CommandPath& command : EveryCommand()) {
    Words words = command;
    words.emplace_back("--");
    EXPECT_THAT(Zsh(words), IsSupersetOf(ListedOptions(HelpOf(command))))
        << absl::StrJoin(command, " ");
  }
}

}  // namespace
}  // namespace attn
