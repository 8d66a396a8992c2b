// attn: the command line of the attention service.
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>

#include "CLI/CLI.hpp"
#include "absl/synchronization/mutex.h"
#include "client/cli/attend_command.h"
#include "client/cli/backward_command.h"
#include "client/cli/capacity_command.h"
#include "client/cli/check_command.h"
#include "client/cli/command.h"
#include "client/cli/completion_command.h"
#include "client/cli/convert_command.h"
#include "client/cli/global_flags.h"
#include "client/cli/health_command.h"
#include "client/cli/heatmap_command.h"
#include "client/cli/help_formatter.h"
#include "client/cli/info_command.h"
#include "client/cli/inspect_command.h"
#include "client/cli/layer_command.h"
#include "client/cli/load_command.h"
#include "client/cli/plan_command.h"
#include "client/cli/session_command.h"
#include "client/cli/standard_streams.h"
#include "client/cli/usage_error.h"

namespace attn {
namespace {

// In the order of `attn --help`.
constexpr AddCommand kCommands[] = {
    AddAttendCommand,   AddBackwardCommand,   AddInspectCommand,
    AddHeatmapCommand,  AddConvertCommand,    AddPlanCommand,
    AddInfoCommand,     AddHealthCommand,     AddLayerCommand,
    AddSessionCommand,  AddCheckCommand,      AddLoadCommand,
    AddCapacityCommand, AddCompletionCommand,
};

constexpr char kProgramFooter[] = R"(
Exit codes:
  0  done
  1  a check, a comparison or a threshold did not hold
  2  the command line or a file cannot be used
  3  the server refused or failed the call, or says that it does not serve
  4  no server answers at the address

Errors are one line on standard error. "attn COMMAND --help" says more of a
command.

Examples:
  attn health
  attn info --json
  attn attend --input example.npz --causal --heatmap
  attn plan --shape 1,8,8,512,512,64 --causal
  attn --address unix:attn.sock check cases
  attn --address localhost:8443 --tls-ca ca.pem --token-file token health)";

// The command line is parsed, or what is wrong with it has been said: then the
// exit code.
std::optional<ExitCode> Parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      return ReportUsageError(
          absl::InvalidArgumentError(DescribeUsageError(app, error)));
    }
    app.exit(error);  // --help, --version
    return ExitCode::kOk;
  }
}

ExitCode Run(int argc, char** argv) {
  CLI::App app("Attention as a service: client");
  app.name("attn");
  app.footer(kProgramFooter);
  app.formatter(std::make_shared<HelpFormatter>());
  app.fallthrough();
  app.require_subcommand(1);
  GlobalOptions options;
  AddGlobalFlags(app, options);
  for (const AddCommand add : kCommands) add(app, options);
  if (const auto ended = Parse(app, argc, argv); ended.has_value()) {
    return *ended;
  }
  const absl::Status applied = ApplyGlobalFlags(options);
  if (!applied.ok()) return ReportUsageError(applied);
  return options.run();
}

int Main(int argc, char** argv) {
  OccupyStandardStreams();
  // What gRPC would log is in the error that the call ends with.
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread yet.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // A debugging aid of the library that its packaged build leaves on; gRPC's
  // locks pay for it with every call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const ExitCode code = Run(argc, argv);
  const absl::Status printed = FlushStandardOutput();
  if (!printed.ok()) return static_cast<int>(ReportUsageError(printed));
  return static_cast<int>(code);
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) {
  try {
    return attn::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    return static_cast<int>(attn::ReportUsageError(
        absl::ResourceExhaustedError("there is not enough memory for that")));
  } catch (const std::exception& error) {
    return static_cast<int>(
        attn::ReportUsageError(absl::InternalError(error.what())));
  }
}
