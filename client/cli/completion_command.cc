#include "client/cli/completion_command.h"

#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/choices.h"
#include "client/cli/completion_script.h"

namespace attn {
namespace {

constexpr char kCompletionFooter[] = R"(
Prints a script. Put it where the shell looks, or source it:

  source <(attn completion bash)
  attn completion bash > ~/.local/share/bash-completion/completions/attn
  attn completion zsh > ~/.zfunc/_attn    # a folder of $fpath

Examples:
  attn completion bash
  attn completion zsh)";

}  // namespace

void AddCompletionCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand(
      "completion", "Print a script that completes command lines of attn");
  command->footer(kCompletionFooter);
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "The shell")
      ->transform(OneOf({"bash", "zsh"}))
      ->required();
  command->callback([shell, &app, &options] {
    options.run = [shell, &app] {
      std::fputs(
          (*shell == "zsh" ? ZshCompletion(app) : BashCompletion(app)).c_str(),
          stdout);
      return ExitCode::kOk;
    };
  });
}

}  // namespace attn
