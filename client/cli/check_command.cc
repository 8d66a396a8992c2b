#include "client/cli/check_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/cli/check/runner.h"
#include "client/cli/check/service.h"
#include "client/cli/spec_flags.h"

namespace attn {
namespace {

constexpr char kCheckFooter[] = R"(
DIR is a folder of families, a family, or a case: <family>/<case>/case.json.
Ends with "N passed, N failed, N skipped" and exits 1 if any failed. Skipped is
only what the wire cannot say yet.

Examples:
  attn check cases/
  attn check cases/ --family sdpa,alibi --verbose
  attn check cases/mask_causal --precision f64 --kernel reference)";

struct CheckFlags {
  std::string folder;
  std::vector<std::string> families;
  std::string precision = "f32";
  std::string kernel;
  bool verbose = false;
};

absl::StatusOr<Precision> ParsePrecision(const std::string& name) {
  const auto dtype = ParseFloatDType(name, "--precision");
  if (!dtype.ok()) return dtype.status();
  switch (*dtype) {
    case DType::kF64:
      return Precision::kF64;
    case DType::kBF16:
      return Precision::kBF16;
    case DType::kF16:
      return Precision::kF16;
    default:
      return Precision::kF32;
  }
}

ExitCode RunCheck(const CheckFlags& flags, const GlobalOptions& options) {
  const auto precision = ParsePrecision(flags.precision);
  if (!precision.ok()) return ReportUsageError(precision.status());
  const auto folders = FindCases(flags.folder, flags.families);
  if (!folders.ok()) return ReportUsageError(folders.status());
  auto client = ConnectTo(options);
  if (!client.ok()) return ReportUsageError(client.status());
  // Once, so that a server that is not there is not a list of failures.
  const absl::Status health = client->Health();
  if (!health.ok()) return ReportCallError(health);
  const Service service(*std::move(client), *precision, flags.kernel);
  CheckTally score;
  for (const std::string& folder : *folders) {
    const auto result = CheckCase(folder, service);
    if (!result.ok()) return ReportCallError(result.status());
    score.Add(*result);
    const bool show = flags.verbose || result->verdict == Verdict::kFailed;
    if (show && !options.json) std::fputs(Describe(*result).c_str(), stdout);
  }
  if (options.json) {
    std::puts(score.ToJson().dump(2).c_str());
  } else {
    std::fputs(score.ToString().c_str(), stdout);
  }
  return score.failed() == 0 ? ExitCode::kOk : ExitCode::kCheckFailed;
}

}  // namespace

void AddCheckCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command =
      app.add_subcommand("check", "Run a folder of cases with known answers");
  command->footer(kCheckFooter);
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("DIR", flags->folder, "Folder of cases")->required();
  command->add_option("--family", flags->families, "Only these families")
      ->delimiter(',');
  command
      ->add_option("--precision", flags->precision,
                   "Type of the tensors sent: f32, f64, bf16, f16")
      ->capture_default_str();
  command->add_option("--kernel", flags->kernel, "Kernel by name");
  command->add_flag("--verbose", flags->verbose, "Name every case");
  command->callback([flags, &options] {
    options.run = [flags, &options] { return RunCheck(*flags, options); };
  });
}

}  // namespace attn
