// attn: the command line of the attention service.
#include <cstdio>
#include <exception>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/attend_command.h"
#include "client/cli/check_command.h"
#include "client/cli/command.h"
#include "client/cli/health_command.h"
#include "client/cli/info_command.h"
#include "client/cli/load_command.h"
#include "client/cli/plan_command.h"

namespace attn {
namespace {

// In the order of `attn --help`.
constexpr AddCommand kCommands[] = {
    AddAttendCommand, AddPlanCommand,  AddInfoCommand,
    AddHealthCommand, AddCheckCommand, AddLoadCommand,
};

constexpr char kFooter[] = R"(
Exit codes: 0 done, 1 a check, comparison or threshold did not hold,
2 bad command line or input file, 3 the server refused or failed the call,
4 no server answers.

Examples:
  attn health
  attn info --json
  attn attend --input example.npz --causal --heatmap
  attn plan --shape 1,8,8,512,512,64 --causal
  attn --address unix:/run/attn.sock check cases/)";

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  app.add_option("--address", options.address,
                 "Server: host:port or unix:/path")
      ->envname("ATTN_ADDRESS")
      ->capture_default_str();
  app.add_option("--timeout", options.timeout,
                 "Deadline of each call: 30s, 500ms, or seconds")
      ->envname("ATTN_TIMEOUT")
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print one JSON document");
  app.set_version_flag("--version", "attn " ATTN_VERSION);
}

int Main(int argc, char** argv) {
  CLI::App app("Attention as a service: client");
  app.name("attn");
  app.footer(kFooter);
  app.fallthrough();
  app.require_subcommand(1);
  GlobalOptions options;
  AddGlobalOptions(app, options);
  for (const AddCommand add : kCommands) add(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked = error.get_exit_code() == 0;  // --help, --version
    app.exit(error);
    return static_cast<int>(asked ? ExitCode::kOk : ExitCode::kUsage);
  }
  const auto timeout = ParseTimeout(options.timeout);
  if (!timeout.ok()) {
    return static_cast<int>(ReportUsageError(timeout.status()));
  }
  return static_cast<int>(options.run());
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) {
  try {
    return attn::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attn: %s\n", error.what());
    return static_cast<int>(attn::ExitCode::kUsage);
  }
}
