#include "client/cli/info_command.h"

#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/protobuf_json.h"
#include "client/cli/text_table.h"

namespace attn {
namespace {

constexpr char kFooter[] = R"(
Examples:
  attn info
  attn --json info)";

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
  command->footer(kFooter);
  command->callback(
      [&options] { options.run = [&options] { return RunInfo(options); }; });
}

}  // namespace attn
