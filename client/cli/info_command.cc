#include "client/cli/info_command.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/local_calibration.h"
#include "client/cli/progress.h"
#include "client/cli/protobuf_json.h"
#include "client/cli/text_table.h"

namespace attn {
namespace {

constexpr char kInfoFooter[] = R"(
Examples:
  attn info
  attn info --calibrate --budget 20ms
  attn --json info)";

struct InfoFlags {
  bool calibrate = false;
  // Of time, for each kernel and call.
  std::string budget = "100ms";
};

std::string DescribeServer(const v1::GetServerInfoResponse& info) {
  TextTable table({"server", ""});
  table.AddRow({"version", info.version()});
  table.AddRow({"instruction set", info.isa()});
  table.AddRow({"oneDNN", info.onednn_version()});
  table.AddRow({"gRPC", info.grpc_version()});
  table.AddRow({"CPU quota", absl::StrCat(info.cpu_quota_cores(), " cores")});
  table.AddRow({"compute threads", absl::StrCat(info.compute_threads())});
  std::vector<std::string> dtypes;
  for (const int dtype : info.dtypes()) {
    dtypes.emplace_back(absl::StripPrefix(
        v1::DataType_Name(static_cast<v1::DataType>(dtype)), "DATA_TYPE_"));
  }
  table.AddRow({"element types", absl::StrJoin(dtypes, ", ")});
  return table.ToString();
}

std::string DescribeLimits(const v1::Limits& limits) {
  TextTable table({"limit", ""});
  table.AddRow({"message",
                FormatBytes(static_cast<double>(limits.max_message_bytes()))});
  table.AddRow({"in flight",
                FormatBytes(static_cast<double>(limits.max_inflight_bytes()))});
  table.AddRow(
      {"concurrent requests", absl::StrCat(limits.max_concurrent_requests())});
  table.AddRow({"queue", absl::StrCat(limits.max_queue_size())});
  table.AddRow({"calls of a stream", absl::StrCat(limits.max_stream_calls())});
  table.AddRow(
      {"default timeout", absl::StrCat(limits.default_timeout_ms(), " ms")});
  return table.ToString();
}

std::string DescribeStages(const v1::GetServerInfoResponse& info) {
  TextTable stages({"stage", "member", "what"});
  for (const v1::StageMembers& stage : info.stages()) {
    for (const v1::StageMember& member : stage.members()) {
      stages.AddRow({stage.stage(), member.name(), member.summary()});
    }
  }
  TextTable kernels({"kernels", "in order of preference"});
  for (const std::string& kernel : info.kernels()) {
    kernels.AddRow({kernel, ""});
  }
  return absl::StrCat(stages.ToString(), "\n", kernels.ToString());
}

std::string DescribeCalibration(const std::vector<CalibrationRow>& rows) {
  TextTable table({"call", "chosen", "ms", "fastest", "ms", ""});
  int wrong = 0;
  for (const CalibrationRow& row : rows) {
    const bool is_right = row.Loss() <= kToleratedLoss;
    wrong += is_right ? 0 : 1;
    const auto milliseconds = [&row](const std::string& kernel) {
      return FormatNumber(absl::ToDoubleMilliseconds(row.times.at(kernel)));
    };
    table.AddRow(
        {row.call, row.chosen, milliseconds(row.chosen), row.Fastest(),
         milliseconds(row.Fastest()),
         is_right ? "" : absl::StrFormat("wrong: %.2f x", row.Loss())});
  }
  return absl::StrCat("machine of the class ", LocalCpuClass(), "\n",
                      table.ToString(), "the choice is wrong for ", wrong,
                      " of ", rows.size(), " calls\n");
}

nlohmann::json CalibrationJson(const std::vector<CalibrationRow>& rows) {
  nlohmann::json calls = nlohmann::json::array();
  for (const CalibrationRow& row : rows) {
    nlohmann::json times;
    for (const auto& [kernel, time] : row.times) {
      times[kernel] = absl::ToDoubleMilliseconds(time);
    }
    calls.push_back({{"call", row.call},
                     {"chosen", row.chosen},
                     {"fastest", row.Fastest()},
                     {"loss", row.Loss()},
                     {"times_ms", times}});
  }
  return {{"cpu_class", LocalCpuClass()}, {"calls", calls}};
}

ExitCode RunCalibration(const InfoFlags& flags, const GlobalOptions& options) {
  const auto budget = ParseTimeout(flags.budget, "--budget");
  if (!budget.ok()) return ReportUsageError(budget.status());
  std::optional<ProgressBar> bar;
  const auto rows = Calibrate(
      *budget, [&bar](int64_t done, int64_t all, const std::string& call) {
        if (!bar.has_value()) bar.emplace("attn info --calibrate", all);
        bar->Show(done, call);
      });
  bar.reset();
  if (!rows.ok()) return ReportUsageError(rows.status());
  std::fputs(options.json ? (CalibrationJson(*rows).dump(2) + "\n").c_str()
                          : DescribeCalibration(*rows).c_str(),
             stdout);
  return ExitCode::kOk;
}

ExitCode RunInfo(const GlobalOptions& options) {
  const auto client = ConnectTo(options);
  if (!client.ok()) return ReportUsageError(client.status());
  const auto info = client->GetServerInfo();
  if (!info.ok()) return ReportCallError(info.status());
  if (options.json) {
    std::puts(ToJson(*info).dump(2).c_str());
  } else {
    std::printf("%s\n%s\n%s", DescribeServer(*info).c_str(),
                DescribeLimits(info->limits()).c_str(),
                DescribeStages(*info).c_str());
  }
  return ExitCode::kOk;
}

}  // namespace

void AddInfoCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand(
      "info", "Describe the server: version, limits, stages, kernels");
  command->footer(kInfoFooter);
  auto flags = std::make_shared<InfoFlags>();
  CLI::Option* calibrate = command->add_flag(
      "--calibrate", flags->calibrate,
      "Ask no server: measure the kernels on this machine, and say where the "
      "engine's choice is wrong");
  command
      ->add_option("--budget", flags->budget,
                   "Time of each kernel and call of --calibrate")
      ->type_name("TIME")
      ->needs(calibrate)
      ->capture_default_str();
  command->callback([flags, &options] {
    options.run = [flags, &options] {
      return flags->calibrate ? RunCalibration(*flags, options)
                              : RunInfo(options);
    };
  });
}

}  // namespace attn
