#include "client/load/load_report_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/load/load_report_sessions.h"
#include "client/load/time_text.h"

namespace attn {
namespace {

constexpr double kNanosPerTextMicro = 1e3;

std::string ErrorsInARow(const CallTally& tally) {
  std::string text;
  for (const auto& [code, count] : tally.errors) {
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    absl::StatusCodeToString(code), " ", count);
  }
  return text.empty() ? "none" : text;
}

std::string Totals(const LoadResult& result) {
  std::string text;
  absl::StrAppendFormat(&text, "  offered   %10.1f/s  %d requests\n",
                        result.offered_rate(), result.offered);
  absl::StrAppendFormat(&text, "  achieved  %10.1f/s  %.1f %%\n",
                        result.achieved_rate(), 100 * result.achieved_share());
  absl::StrAppendFormat(&text, "  errors    %10d    %s\n", result.error_count(),
                        ErrorsInARow(result));
  for (const auto& [reason, count] : result.errors_by_reason) {
    absl::StrAppendFormat(&text, "            %10d    %s\n", count, reason);
  }
  return absl::StrCat(text, "\n");
}

std::string ClassTable(const LoadReport& report, const LoadResult& result) {
  if (result.classes.empty()) return "";
  std::string text = absl::StrFormat("\n%s", MicrosHeading());
  for (size_t i = 0; i < result.classes.size(); ++i) {
    text += MicrosRow(report.classes[i].name, result.classes[i].latency);
  }
  absl::StrAppendFormat(&text, "\n  %-18s %9s %10s %9s  %s\n", "class", "share",
                        "achieved/s", "errors", "call");
  for (size_t i = 0; i < result.classes.size(); ++i) {
    const CallTally& tally = result.classes[i];
    absl::StrAppendFormat(
        &text, "  %-18s %7.1f %% %10.1f %9d  %s\n", report.classes[i].name,
        result.offered == 0 ? 0
                            : 100 * static_cast<double>(tally.offered) /
                                  static_cast<double>(result.offered),
        result.RateOf(tally.answered_in_time), tally.error_count(),
        report.classes[i].call);
  }
  return text;
}

std::string StepDetail(const LoadReport& report, const LoadStep& step) {
  const LoadResult& result = step.result;
  std::string text = absl::StrCat(Totals(result), MicrosHeading());
  text += MicrosRow("latency (intended)", result.latency);
  text += MicrosRow("service (sent)", result.service);
  text += MicrosRow("server queue", result.server_queue);
  text += MicrosRow("server compute", result.server_compute);
  text += MicrosRow("client slip", result.slip);
  absl::StrAppend(&text, ClassTable(report, result));
  for (size_t i = 0; i < step.sessions.size(); ++i) {
    if (!step.sessions[i].has_value()) continue;
    text +=
        SessionsText(result, *step.sessions[i],
                     report.classes.size() == 1 ? "" : report.classes[i].name);
  }
  text += "\n";
  absl::StrAppendFormat(
      &text,
      "  client: %.2f CPU s, %.0f %% of one core; %d held back, %d unsent\n",
      result.cpu_seconds,
      result.window_seconds > 0
          ? 100 * result.cpu_seconds / result.window_seconds
          : 0,
      result.held_back, result.unsent);
  const Verification verification = step.verified();
  absl::StrAppendFormat(&text, "  verified %d answers, %d wrong\n",
                        verification.verified, verification.mismatches);
  return text;
}

// "31.2ms", "-"
std::string Cell(const HdrHistogram& histogram, double percentile) {
  if (histogram.count() == 0) return "-";
  return absl::StrReplaceAll(
      FormatNanos(static_cast<double>(histogram.ValueAtPercentile(percentile))),
      {{" ", ""}});
}

std::string TallyCells(const LoadResult& run, const CallTally& tally) {
  return absl::StrFormat(
      "%9.1f %9.1f %7d %7s %7s %7s %7s %8s %7s %7s", run.RateOf(tally.offered),
      run.RateOf(tally.answered_in_time), tally.error_count(),
      Cell(tally.latency, 50), Cell(tally.latency, 99),
      Cell(tally.latency, 99.9), Cell(tally.latency, 100),
      Cell(tally.service, 99), Cell(tally.server_queue, 99),
      Cell(tally.server_compute, 99));
}

// How the steps' rates were chosen.
std::string PaceOf(const LoadReport& report) {
  if (report.search.has_value()) {
    return absl::StrFormat("search for the highest rate that keeps to %s",
                           report.slo->ToString());
  }
  if (report.steps.size() == 1) return DescribePace(report.steps[0].options);
  return absl::StrFormat("%d steps of an open loop, %s arrivals",
                         report.steps.size(),
                         Name(report.steps[0].options.arrivals));
}

}  // namespace

std::string MicrosRow(const std::string& name, const HdrHistogram& histogram) {
  std::string row = absl::StrFormat("  %-18s", name);
  if (histogram.count() == 0) return row + "         -\n";
  for (const ReportedPercentile& p : kReportedPercentiles) {
    const auto nanos =
        static_cast<double>(histogram.ValueAtPercentile(p.percentile));
    absl::StrAppendFormat(&row, " %9.1f", nanos / kNanosPerTextMicro);
  }
  return absl::StrFormat("%s %9.1f\n", row,
                         histogram.mean() / kNanosPerTextMicro);
}

std::string MicrosHeading() {
  std::string text = absl::StrFormat("  %-18s", "microseconds");
  for (const ReportedPercentile& p : kReportedPercentiles) {
    absl::StrAppendFormat(&text, " %9s", p.name);
  }
  return absl::StrFormat("%s %9s\n", text, "mean");
}

std::string LoadReportHead(const LoadReport& report, const std::string& pace) {
  std::string text = absl::StrCat(pace, "\n");
  for (const ReportedClass& one : report.classes) {
    const std::string name =
        report.classes.size() == 1
            ? ""
            : absl::StrFormat("%s (weight %g): ", one.name, one.weight);
    absl::StrAppend(&text, name, one.call, ", ", one.payloads, " payload",
                    one.payloads == 1 ? "" : "s", "\n");
  }
  const std::string processes =
      report.processes == 1
          ? ""
          : absl::StrCat(" by each of ", report.processes, " processes");
  absl::StrAppendFormat(&text, "%d connection%s to %s%s\n\n",
                        report.connections, report.connections == 1 ? "" : "s",
                        report.address, processes);
  return text;
}

std::string StepHeading() {
  return "                              |   latency from the intended send   "
         "| sent   |  server's p99\n"
         "step  offered  achieved  errors     p50     p99   p99.9     max      "
         "p99   queue compute\n";
}

std::string StepRows(const LoadReport& report, size_t index) {
  const LoadStep& step = report.steps[index];
  const std::vector<std::string> failures =
      step.Failures(report.slo_or_null(), report.most_spread);
  std::string text = absl::StrFormat(
      "%4d %s  %s\n", index + 1, TallyCells(step.result, step.result),
      failures.empty() ? "ok"
                       : absl::StrCat("no: ", absl::StrJoin(failures, "; ")));
  for (size_t i = 0; i < step.result.classes.size(); ++i) {
    absl::StrAppendFormat(&text, "     %s  %s\n",
                          TallyCells(step.result, step.result.classes[i]),
                          report.classes[i].name);
  }
  for (const std::optional<SessionTally>& tally : step.sessions) {
    if (tally.has_value()) text += SessionsRow(*tally);
  }
  return text;
}

std::string LoadReportTail(const LoadReport& report) {
  std::string text;
  if (report.search.has_value()) {
    absl::StrAppend(&text, DescribeKnee(*report.search, *report.slo), "\n");
  } else if (report.steps.size() > 1) {
    const size_t main = report.MainStep();
    const bool passed = report.steps[main]
                            .Failures(report.slo_or_null(), report.most_spread)
                            .empty();
    absl::StrAppendFormat(&text, "%s: step %d, %s\n",
                          passed ? "highest that passed" : "none passed; last",
                          main + 1,
                          FormatRate(report.steps[main].options.rate));
  }
  for (const std::string& note : report.Notes()) {
    absl::StrAppend(&text, "note: ", note, "\n");
  }
  absl::StrAppend(&text, report.Failures().empty() ? "passed" : "FAILED", "\n");
  return text;
}

std::string LoadReportText(const LoadReport& report) {
  const LoadOptions& options = report.steps.front().options;
  std::string text = LoadReportHead(
      report, absl::StrFormat("%s for %s after %s of warm-up", PaceOf(report),
                              absl::FormatDuration(options.duration),
                              absl::FormatDuration(options.warmup)));
  if (report.steps.size() == 1 && !report.search.has_value()) {
    text += StepDetail(report, report.steps.front());
  } else {
    text += StepHeading();
    for (size_t i = 0; i < report.steps.size(); ++i)
      text += StepRows(report, i);
  }
  return absl::StrCat(text, "\n", LoadReportTail(report));
}

}  // namespace attn
