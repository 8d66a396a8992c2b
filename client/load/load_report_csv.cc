#include "client/load/load_report_csv.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace attn {
namespace {

// A spreadsheet would compute a text that begins so.
std::string NoFormula(const std::string& text) {
  constexpr char kBeginsFormula[] = "=+-@\t\r";
  return text.find_first_of(kBeginsFormula) == 0 ? absl::StrCat("'", text)
                                                 : text;
}

std::string Quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  return absl::StrCat("\"", absl::StrReplaceAll(cell, {{"\"", "\"\""}}), "\"");
}

// All digits that a count of nanoseconds in microseconds can have.
std::string Exact(double value) { return absl::StrFormat("%.12g", value); }

struct CsvRow {
  std::vector<std::string> heading;
  std::vector<std::string> cells;

  void Add(const std::string& name, const std::string& text) {
    heading.push_back(name);
    cells.push_back(Quoted(NoFormula(text)));
  }
  void Add(const std::string& name, double value) { Add(name, Exact(value)); }
  void Add(const std::string& name, int64_t count) {
    Add(name, absl::StrCat(count));
  }

  void AddMicros(const std::string& name, const HdrHistogram& histogram,
                 double nanos) {
    constexpr double kNanosPerMicro = 1e3;
    heading.push_back(name);
    cells.push_back(histogram.count() == 0 ? ""
                                           : Exact(nanos / kNanosPerMicro));
  }

  // "<name>_p50_us", ... "<name>_mean_us"
  void AddHistogram(const std::string& name, const HdrHistogram& histogram) {
    for (const ReportedPercentile& p : kReportedPercentiles) {
      AddMicros(absl::StrCat(name, "_", p.name, "_us"), histogram,
                static_cast<double>(histogram.ValueAtPercentile(p.percentile)));
    }
    AddMicros(absl::StrCat(name, "_mean_us"), histogram, histogram.mean());
  }
};

// `total`: of all classes.
CsvRow RowOf(const LoadReport& report, size_t index, const std::string& name,
             const CallTally& tally, const Verification& verification,
             bool total) {
  const LoadStep& step = report.steps[index];
  const LoadResult& run = step.result;
  const LoadOptions& options = step.options;
  CsvRow row;
  row.Add("step", static_cast<int64_t>(index) + 1);
  row.Add("class", name);
  row.Add("mode", options.open() ? "open" : "closed");
  row.Add("arrivals", options.open() ? Name(options.arrivals) : "");
  row.Add("rate_rps", options.open() ? Exact(options.rate) : "");
  row.Add("callers", options.open() ? "" : absl::StrCat(options.callers));
  row.Add("duration_s", run.window_seconds);
  row.Add("offered_rps", run.RateOf(tally.offered));
  row.Add("achieved_rps", run.RateOf(tally.answered_in_time));
  row.Add("requests", tally.offered);
  row.Add("answered", tally.answered);
  row.Add("errors", tally.error_count());
  row.AddHistogram("latency", tally.latency);
  row.AddHistogram("service", tally.service);
  row.AddHistogram("queue", tally.server_queue);
  row.AddHistogram("compute", tally.server_compute);
  row.AddHistogram("slip", total ? run.slip : HdrHistogram(2));
  row.Add("cpu_s", total ? Exact(run.cpu_seconds) : "");
  row.Add("held_back", tally.held_back);
  row.Add("unsent", tally.unsent);
  row.Add("verified", verification.verified);
  row.Add("mismatches", verification.mismatches);
  std::vector<std::string> failures;
  if (total) failures = step.Failures(report.slo_or_null(), report.most_spread);
  row.Add("passed", !total ? "" : failures.empty() ? "true" : "false");
  row.Add("failures", absl::StrJoin(failures, "; "));
  return row;
}

}  // namespace

std::string LoadReportCsv(const LoadReport& report) {
  std::string text;
  for (size_t i = 0; i < report.steps.size(); ++i) {
    const LoadStep& step = report.steps[i];
    const CsvRow total =
        RowOf(report, i, "total", step.result, step.verified(), true);
    if (i == 0) {
      absl::StrAppend(&text, absl::StrJoin(total.heading, ","), "\r\n");
    }
    absl::StrAppend(&text, absl::StrJoin(total.cells, ","), "\r\n");
    for (size_t k = 0; k < step.result.classes.size(); ++k) {
      const CsvRow row =
          RowOf(report, i, report.classes[k].name, step.result.classes[k],
                step.verification.at(k), false);
      absl::StrAppend(&text, absl::StrJoin(row.cells, ","), "\r\n");
    }
  }
  return text;
}

}  // namespace attn
