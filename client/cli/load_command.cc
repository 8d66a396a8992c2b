#include "client/cli/load_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/error_line.h"
#include "client/cli/interrupt.h"
#include "client/cli/load_flags.h"
#include "client/cli/load_presenter.h"
#include "client/io/file.h"
#include "client/load/load_merge.h"
#include "client/load/load_record.h"
#include "client/load/load_report_csv.h"
#include "client/load/load_report_html.h"
#include "client/load/load_report_json.h"
#include "client/load/load_report_text.h"
#include "client/load/server_target.h"

namespace attn {
namespace {

constexpr char kLoadFooter[] = R"(
The open loop (--rate, --steps, --ramp) sends on schedule whatever the server
does, and measures latency from the time a request was meant to be sent: a stall
of the server, or of this program, is in the percentiles. Service time runs from
the actual send. The closed loop (--closed) sends when an answer came: it finds
the capacity, but its latencies hide stalls.

--slo with a rate says whether that rate holds. --slo alone searches for the
knee: the highest rate of an open loop that keeps to the SLO, achieves 99 % of
what is offered, and has no errors.

--sessions makes the calls steps of sessions that are open all the while: Sk of
the shape are the tokens that each has before its first step, Sq those of a
step. Ctrl-C ends the load early: what was measured is reported, and sessions
are closed.

Exit code 1: less than 99 % of the offered rate was achieved, a verified answer
was wrong, a session was lost, the SLO was missed, or no rate holds it.

Examples:
  attn load --closed 8 --duration 10s
  attn load --rate 500 --shape 1,8,8,512,512,64 --causal --dtype bf16
  attn load --rate 2000 --arrivals constant --connections 4 --json
  attn load --steps 100,200,400 --slo p99=20ms --html report.html
  attn load --slo p99=20ms,p99.9=50ms
  attn load --profile client/load/profiles/mixed.json --rate 200 --csv out.csv
  attn load --sessions 8 --closed 8 --shape 1,8,2,1,512,64 --most-spread 100
  attn load --profile client/load/profiles/sessions.json --closed 512
  attn load --closed 4 --seed 2 --histogram-out a.json
  attn load --merge a.json,b.json)";

// Writes what it can; the first that it cannot is the error.
absl::Status WriteReports(const LoadFlags& flags, const LoadReport& report) {
  absl::Status status;
  if (!flags.csv.empty()) {
    status.Update(WriteFile(flags.csv, LoadReportCsv(report)));
  }
  if (!flags.html.empty()) {
    status.Update(WriteFile(flags.html, LoadReportHtml(report)));
  }
  if (!flags.histogram_out.empty()) {
    status.Update(WriteFile(flags.histogram_out, LoadRecord(report)));
  }
  return status;
}

void PrintLines(const std::string& prefix,
                const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    std::fprintf(stderr, "attn: %s%s\n", prefix.c_str(), OneLine(line).c_str());
  }
}

// Calls that failed, and why the load counts as failed. Steps of a search may
// fail; those of one that found nothing are worth a look.
void PrintFailures(const LoadReport& report) {
  const bool found = report.search.has_value() &&
                     report.search->outcome.rates.held.has_value();
  for (size_t i = 0; i < report.steps.size() && !found; ++i) {
    const std::string prefix =
        report.steps.size() == 1 ? "" : absl::StrCat("step ", i + 1, ": ");
    PrintLines(prefix, ErrorLines(report.steps[i].result));
  }
  PrintLines("", report.Failures());
}

ExitCode Present(const LoadFlags& flags, const GlobalOptions& global,
                 const LoadReport& report, bool rows_are_out) {
  const absl::Status written = WriteReports(flags, report);
  const std::string text =
      global.json ? LoadReportJson(report).dump(
                        2, ' ', false,
                        nlohmann::ordered_json::error_handler_t::replace) +
                        "\n"
      : rows_are_out ? "\n" + LoadReportTail(report)
                     : LoadReportText(report);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  PrintFailures(report);
  if (!written.ok()) return ReportUsageError(written);
  return report.Failures().empty() ? ExitCode::kOk : ExitCode::kCheckFailed;
}

ExitCode RunMerge(const LoadFlags& flags, const GlobalOptions& global) {
  absl::Status status = CheckMergeFlags(flags);
  if (status.ok()) status = CheckReportFiles(flags);
  if (!status.ok()) return ReportUsageError(status);
  constexpr int64_t kMostRecordBytes = int64_t{1} << 30;
  std::vector<std::pair<std::string, LoadReport>> reports;
  for (const std::string& path : flags.merge) {
    const auto text = ReadFile(path, kMostRecordBytes);
    if (!text.ok()) return ReportUsageError(text.status());
    auto report = ParseLoadRecord(*text, path);
    if (!report.ok()) return ReportUsageError(report.status());
    reports.emplace_back(path, *std::move(report));
  }
  const auto merged = MergeReports(std::move(reports));
  if (!merged.ok()) return ReportUsageError(merged.status());
  return Present(flags, global, *merged, /*rows_are_out=*/false);
}

ExitCode RunLoadCommand(const LoadFlags& flags, const GlobalOptions& global) {
  if (flags.given.contains("--merge")) return RunMerge(flags, global);
  const absl::StatusOr<LoadJob> job = ReadLoadFlags(flags);
  if (!job.ok()) return ReportUsageError(job.status());
  if (absl::Status status = CheckReportFiles(flags); !status.ok()) {
    return ReportUsageError(status);
  }
  // Before there are threads.
  const Interrupt interrupt;
  auto target = ServerTarget::Create({.address = global.address,
                                      .connections = flags.connections,
                                      .deadline = global.deadline(),
                                      .verify_every = flags.verify_every,
                                      .security = global.security},
                                     job->classes);
  if (!target.ok()) return ReportUsageError(target.status());
  LoadReport report;
  report.address = global.address;
  report.classes = Describe(job->classes);
  report.seed = flags.seed;
  report.connections = flags.connections;
  bool rows_are_out = false;
  absl::Status status;
  {
    LoadPresenter presenter(job->plan, /*rows=*/!global.json);
    MonotonicTimer timer;
    status = RunPlan(job->plan, **target, timer, presenter, report,
                     interrupt.token());
    rows_are_out = presenter.prints_rows();
  }
  report.cut_short = !status.ok() && !report.interrupted;
  if (report.steps.empty()) return ReportCallError(status);
  const ExitCode code = Present(flags, global, report, rows_are_out);
  return report.cut_short ? ReportCallError(status) : code;
}

}  // namespace

void AddLoadCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand("load", "Load a server and measure");
  command->footer(kLoadFooter);
  auto flags = std::make_shared<LoadFlags>();
  AddLoadFlags(*command, *flags);
  command->callback([command, flags, &options] {
    NoteGivenFlags(*command, *flags);
    options.run = [flags, &options] { return RunLoadCommand(*flags, options); };
  });
}

}  // namespace attn
