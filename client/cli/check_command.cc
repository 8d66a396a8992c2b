#include "client/cli/check_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/cli/check/runner.h"
#include "client/cli/check/service.h"
#include "client/cli/choices.h"
#include "client/cli/colour.h"
#include "client/cli/progress.h"
#include "client/cli/spec_flags.h"

namespace attn {
namespace {

constexpr char kCheckFooter[] = R"(
DIR is a folder of families, a family, or a case: <family>/<case>/case.json.
Ends with "N passed, N failed, N skipped" and exits 1 if any failed. Skipped is
only what the wire cannot say yet.

Examples:
  attn check cases
  attn check cases --family sdpa,alibi --verbose
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

// What is said of a case on the way, and not at the end.
struct CaseTalk {
  bool failures = true;
  bool others = false;
};

absl::StatusOr<CheckTally> CheckAll(const std::vector<std::string>& folders,
                                    const Service& service,
                                    const CaseTalk& talk) {
  CheckTally tally;
  ProgressBar bar("attn check", static_cast<int64_t>(folders.size()));
  int64_t done = 0;
  for (const std::string& folder : folders) {
    bar.Show(done++, folder);
    const auto result = CheckCase(folder, service);
    if (!result.ok()) return result.status();
    tally.Add(*result);
    if (result->verdict == Verdict::kFailed ? talk.failures : talk.others) {
      bar.Clear();
      std::fputs(Describe(*result, WantsColour()).c_str(), stdout);
      std::fflush(stdout);
    }
  }
  return tally;
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
  const auto tally = CheckAll(
      *folders, service,
      {.failures = !options.json, .others = flags.verbose && !options.json});
  if (!tally.ok()) return ReportCallError(tally.status());
  if (options.json) {
    std::puts(tally->ToJson().dump(2).c_str());
  } else {
    std::fputs(tally->ToString(WantsColour()).c_str(), stdout);
  }
  return tally->failed() == 0 ? ExitCode::kOk : ExitCode::kCheckFailed;
}

}  // namespace

void AddCheckCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand(
      "check", "Compare a server's answers with known ones: a folder of cases");
  command->footer(kCheckFooter);
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("DIR", flags->folder, "Folder of cases")
      ->type_name(kFolderType)
      ->required();
  command->add_option("--family", flags->families, "Only these families")
      ->delimiter(',')
      ->type_name("NAME");
  command
      ->add_option("--precision", flags->precision, "Type of the tensors sent")
      ->transform(OneOf(FloatNames()))
      ->capture_default_str();
  command->add_option("--kernel", flags->kernel, "Kernel by name")
      ->type_name("NAME");
  command->add_flag("--verbose", flags->verbose, "Name every case");
  command->callback([flags, &options] {
    options.run = [flags, &options] { return RunCheck(*flags, options); };
  });
}

}  // namespace attn
