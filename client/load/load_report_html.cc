#include "client/load/load_report_html.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/load/html_text.h"
#include "client/load/load_plots.h"
#include "client/load/time_text.h"

namespace attn {
namespace {

constexpr char kPageStyle[] = R"(
:root{color-scheme:light dark;--page:#fff;--card:#f5f6f8;--text:#1b1f24;
--soft:#59636e;--rule:#dfe3e8;--good:#1a7f37;--bad:#c93c37}
@media (prefers-color-scheme:dark){:root{--page:#14171a;--card:#1e2328;
--text:#e6e9ec;--soft:#9aa4af;--rule:#333b43;--good:#57c26f;--bad:#ff7b72}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);
font:15px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:24px 20px 48px}
h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 10px}
p{margin:4px 0}.soft{color:var(--soft)}
.badge{display:inline-block;margin-left:10px;padding:1px 10px;border-radius:9px;
font-size:14px;vertical-align:4px;color:var(--page);background:var(--good)}
.badge.bad{background:var(--bad)}
ul{margin:8px 0;padding-left:20px}.bad-list li{color:var(--bad)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(112px,1fr));
gap:10px;margin:18px 0}
.card{background:var(--card);border-radius:8px;padding:10px 12px}
.card b{display:block;font-size:20px;font-weight:600}
.card span{color:var(--soft);font-size:13px}
figure{margin:0;background:var(--card);border-radius:8px;padding:12px}
figcaption{font-weight:600;margin-bottom:4px}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,500px),1fr));
gap:14px}
.wide{overflow-x:auto;margin-top:14px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}
th,td{padding:4px 12px 4px 0;text-align:right;white-space:nowrap;
border-bottom:1px solid var(--rule)}
th{color:var(--soft);font-weight:500}
th:first-child,td:first-child,.left{text-align:left}
td.left{white-space:normal;min-width:210px}td.bad{color:var(--bad)}
)";

// One cell: text, and its class.
struct HtmlCell {
  std::string text;
  const char* style = "";
};
using HtmlRow = std::vector<HtmlCell>;

HtmlRow CellsOf(const std::vector<std::string>& texts) {
  HtmlRow row;
  for (const std::string& text : texts) row.push_back({.text = text});
  return row;
}

std::string RowHtml(const char* tag, const HtmlRow& row) {
  std::string html = "<tr>";
  for (const HtmlCell& cell : row) {
    const std::string style =
        *cell.style == '\0' ? "" : absl::StrCat(" class=\"", cell.style, "\"");
    absl::StrAppend(&html, "<", tag, style, ">", EscapeHtml(cell.text), "</",
                    tag, ">");
  }
  return absl::StrCat(html, "</tr>\n");
}

std::string TableHtml(const HtmlRow& heading,
                      const std::vector<HtmlRow>& rows) {
  std::string html =
      absl::StrCat("<div class=\"wide\"><table>\n<thead>",
                   RowHtml("th", heading), "</thead>\n<tbody>\n");
  for (const HtmlRow& row : rows) html += RowHtml("td", row);
  return absl::StrCat(html, "</tbody></table></div>\n");
}

std::string ListHtml(const char* style, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string html = absl::StrCat("<ul class=\"", style, "\">\n");
  for (const std::string& line : lines) {
    absl::StrAppend(&html, "<li>", EscapeHtml(line), "</li>\n");
  }
  return absl::StrCat(html, "</ul>\n");
}

std::string FigureHtml(const Plot& plot) {
  const std::string svg = DrawSvgPlot(plot);
  if (svg.empty()) return "";
  return absl::StrCat("<figure><figcaption>", EscapeHtml(plot.title),
                      "</figcaption>\n", svg, "</figure>\n");
}

std::string TimeAt(const HdrHistogram& histogram, double percentile) {
  if (histogram.count() == 0) return "-";
  return FormatNanos(
      static_cast<double>(histogram.ValueAtPercentile(percentile)));
}

std::string PerSecond(double rate) { return absl::StrFormat("%.1f/s", rate); }

HtmlRow PercentileRow(const std::string& name, const HdrHistogram& histogram) {
  HtmlRow row = {{.text = name}};
  for (const ReportedPercentile& p : kReportedPercentiles) {
    row.push_back({.text = TimeAt(histogram, p.percentile)});
  }
  row.push_back(
      {.text = histogram.count() == 0 ? "-" : FormatNanos(histogram.mean())});
  row.push_back({.text = absl::StrCat(histogram.count())});
  return row;
}

HtmlRow PercentileHeading(const std::string& first) {
  HtmlRow row = {{.text = first}};
  for (const ReportedPercentile& p : kReportedPercentiles) {
    row.push_back({.text = p.name});
  }
  row.push_back({.text = "mean"});
  row.push_back({.text = "count"});
  return row;
}

std::string Header(const LoadReport& report, const LoadStep& step) {
  const bool passed = report.Failures().empty();
  std::string html =
      absl::StrFormat("<h1>attn load<span class=\"badge%s\">%s</span></h1>\n",
                      passed ? "" : " bad", passed ? "passed" : "failed");
  absl::StrAppend(&html, "<p>",
                  EscapeHtml(report.search.has_value()
                                 ? DescribeKnee(*report.search, *report.slo)
                                 : DescribePace(step.options)),
                  "</p>\n<p class=\"soft\">", EscapeHtml(report.address), ", ",
                  absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", report.started,
                                   absl::UTCTimeZone()),
                  ", attn " ATTN_VERSION "</p>\n");
  absl::StrAppend(&html, ListHtml("bad-list", report.Failures()),
                  ListHtml("soft", report.Notes()));
  return html;
}

std::string Cards(const LoadStep& step) {
  const LoadResult& result = step.result;
  const Verification verification = step.verified();
  const std::pair<std::string, std::string> cards[] = {
      {"offered", PerSecond(result.offered_rate())},
      {"achieved", PerSecond(result.achieved_rate())},
      {"errors", absl::StrCat(result.error_count())},
      {"p50", TimeAt(result.latency, 50)},
      {"p99", TimeAt(result.latency, 99)},
      {"p99.9", TimeAt(result.latency, 99.9)},
      {"longest", TimeAt(result.latency, 100)},
      {"wrong of verified", absl::StrFormat("%d of %d", verification.mismatches,
                                            verification.verified)},
  };
  std::string html = "<div class=\"cards\">\n";
  for (const auto& [name, value] : cards) {
    absl::StrAppend(&html, "<div class=\"card\"><b>", EscapeHtml(value),
                    "</b><span>", EscapeHtml(name), "</span></div>\n");
  }
  return absl::StrCat(html, "</div>\n");
}

std::string StepsSection(const LoadReport& report) {
  if (report.steps.size() < 2) return "";
  std::vector<HtmlRow> rows;
  for (size_t i = 0; i < report.steps.size(); ++i) {
    const LoadResult& result = report.steps[i].result;
    const std::vector<std::string> failures =
        report.steps[i].Failures(report.slo_or_null(), report.most_spread);
    HtmlRow row = CellsOf(
        {absl::StrCat(i + 1), PerSecond(result.offered_rate()),
         PerSecond(result.achieved_rate()), absl::StrCat(result.error_count()),
         TimeAt(result.latency, 50), TimeAt(result.latency, 99),
         TimeAt(result.latency, 99.9), TimeAt(result.latency, 100),
         TimeAt(result.service, 99), TimeAt(result.server_queue, 99),
         TimeAt(result.server_compute, 99)});
    row.push_back(
        {.text = failures.empty() ? "ok" : absl::StrJoin(failures, "; "),
         .style = failures.empty() ? "left" : "left bad"});
    rows.push_back(std::move(row));
  }
  HtmlRow heading =
      CellsOf({"step", "offered", "achieved", "errors", "p50", "p99", "p99.9",
               "max", "p99 sent", "p99 queue", "p99 compute"});
  heading.push_back({.text = "verdict", .style = "left"});
  return absl::StrCat("<h2>Steps</h2>\n<div class=\"plots\">\n",
                      FigureHtml(AchievedPlot(report)),
                      FigureHtml(LatencyByRatePlot(report)), "</div>\n",
                      TableHtml(heading, rows));
}

std::string LatencySection(const LoadReport& report, size_t index) {
  const LoadResult& result = report.steps[index].result;
  const std::string which =
      report.steps.size() == 1
          ? "Latency"
          : absl::StrFormat("Latency of step %d, %s", index + 1,
                            PerSecond(result.offered_rate()));
  std::string html =
      absl::StrCat("<h2>", EscapeHtml(which), "</h2>\n<div class=\"plots\">\n",
                   FigureHtml(PercentilePlot(result)),
                   FigureHtml(TimelinePlot(result)), "</div>\n");
  html += TableHtml(
      PercentileHeading(""),
      {PercentileRow("latency from the intended send", result.latency),
       PercentileRow("from the actual send", result.service),
       PercentileRow("server queue", result.server_queue),
       PercentileRow("server compute", result.server_compute),
       PercentileRow("client slip", result.slip)});
  absl::StrAppendFormat(
      &html,
      "<p class=\"soft\">client: %.2f CPU s in a window of %g s; %d held back, "
      "%d unsent</p>\n",
      result.cpu_seconds, result.window_seconds, result.held_back,
      result.unsent);
  return html;
}

std::string ClassesSection(const LoadReport& report, const LoadStep& step) {
  const LoadResult& result = step.result;
  if (result.classes.empty()) return "";
  HtmlRow heading = PercentileHeading("class");
  for (const char* more : {"achieved", "errors", "wrong", "verified"}) {
    heading.push_back({.text = more});
  }
  std::vector<HtmlRow> rows;
  for (size_t i = 0; i < result.classes.size(); ++i) {
    const CallTally& tally = result.classes[i];
    const Verification& verification = step.verification.at(i);
    HtmlRow row = PercentileRow(report.classes[i].name, tally.latency);
    for (const std::string& more :
         {PerSecond(result.RateOf(tally.answered_in_time)),
          absl::StrCat(tally.error_count()),
          absl::StrCat(verification.mismatches),
          absl::StrCat(verification.verified)}) {
      row.push_back({.text = more});
    }
    rows.push_back(std::move(row));
  }
  return absl::StrCat("<h2>Classes</h2>\n<div class=\"plots\">\n",
                      FigureHtml(ClassPercentilePlot(report, result)),
                      "</div>\n", TableHtml(heading, rows));
}

std::string ConfigurationSection(const LoadReport& report) {
  const LoadOptions& options = report.steps.front().options;
  std::vector<std::pair<std::string, std::string>> lines;
  for (const ReportedClass& one : report.classes) {
    const std::string weight = report.classes.size() == 1
                                   ? ""
                                   : absl::StrFormat(", weight %g", one.weight);
    lines.emplace_back(
        absl::StrCat("calls: ", one.name),
        absl::StrCat(one.call, weight, ", ", one.payloads, " payloads"));
  }
  lines.emplace_back("window", absl::FormatDuration(options.duration));
  lines.emplace_back("warm-up, not measured",
                     absl::FormatDuration(options.warmup));
  lines.emplace_back("arrivals",
                     options.open() ? Name(options.arrivals) : "closed loop");
  lines.emplace_back("seed", absl::StrCat(report.seed));
  lines.emplace_back("connections", absl::StrCat(report.connections));
  lines.emplace_back("processes", absl::StrCat(report.processes));
  if (options.open()) {
    lines.emplace_back("most calls in flight",
                       absl::StrCat(options.max_in_flight));
  }
  if (report.slo.has_value()) lines.emplace_back("SLO", report.slo->ToString());
  std::vector<HtmlRow> rows;
  for (const auto& [name, value] : lines) {
    rows.push_back({{.text = name}, {.text = value, .style = "left"}});
  }
  return absl::StrCat(
      "<h2>Configuration</h2>\n",
      TableHtml({{.text = "setting"}, {.text = "value", .style = "left"}},
                rows));
}

}  // namespace

std::string LoadReportHtml(const LoadReport& report) {
  const size_t main = report.MainStep();
  const LoadStep& step = report.steps[main];
  const std::vector<std::string> errors = ErrorLines(step.result);
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none'; style-src 'unsafe-inline'\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\"/>\n<title>attn load: ",
      EscapeHtml(report.address), "</title>\n<style>", kPageStyle,
      SvgPlotStyle(), "</style>\n</head>\n<body>\n<main>\n");
  absl::StrAppend(&html, Header(report, step), Cards(step),
                  StepsSection(report), LatencySection(report, main),
                  ClassesSection(report, step));
  if (!errors.empty()) {
    absl::StrAppend(&html, "<h2>Failed calls</h2>\n",
                    ListHtml("bad-list", errors));
  }
  absl::StrAppend(&html, ConfigurationSection(report),
                  "<p class=\"soft\">Latency runs from the time a request was "
                  "meant to be sent to its answer: a stall of the server, or "
                  "of this program, is in it. A closed loop sends when an "
                  "answer came, and hides stalls.</p>\n"
                  "</main>\n</body>\n</html>\n");
  return html;
}

}  // namespace attn
