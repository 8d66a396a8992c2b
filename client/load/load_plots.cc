#include "client/load/load_plots.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace attn {
namespace {

constexpr char kIntendedLatency[] = "latency from the intended send";

PlotSeries PercentileSeries(const std::string& name, PlotStyle style,
                            const HdrHistogram& histogram) {
  PlotSeries series{.name = name, .style = style, .points = {}};
  const auto count = static_cast<double>(histogram.count());
  double seen = 0;
  for (const HdrHistogram::Bucket& bucket : histogram.NonEmptyBuckets()) {
    const double value = static_cast<double>(
        std::max<int64_t>(1, std::min(bucket.highest, histogram.max())));
    if (series.points.empty()) series.points.push_back({.x = 0, .y = value});
    seen += static_cast<double>(bucket.count);
    // The longest is at 100 %, which is infinitely far: it stands half a
    // request before.
    series.points.push_back(
        {.x = 100 * std::min(seen, count - 0.5) / count, .y = value});
  }
  return series;
}

Plot EmptyPercentilePlot(const std::string& title) {
  return {.title = title,
          .x = {.title = "percentile",
                .scale = PlotScaleKind::kNines,
                .unit = PlotUnit::kPercentile},
          .y = {.title = "latency",
                .scale = PlotScaleKind::kLog,
                .unit = PlotUnit::kTime},
          .series = {}};
}

std::vector<const LoadStep*> StepsByRate(const LoadReport& report) {
  std::vector<const LoadStep*> steps;
  for (const LoadStep& step : report.steps) steps.push_back(&step);
  std::stable_sort(steps.begin(), steps.end(),
                   [](const LoadStep* a, const LoadStep* b) {
                     return a->options.rate < b->options.rate;
                   });
  return steps;
}

}  // namespace

Plot PercentilePlot(const LoadResult& result) {
  Plot plot = EmptyPercentilePlot("Latency by percentile");
  plot.series = {PercentileSeries("from the intended send", PlotStyle::kLine,
                                  result.latency),
                 PercentileSeries("from the actual send",
                                  PlotStyle::kDashedLine, result.service)};
  return plot;
}

Plot ClassPercentilePlot(const LoadReport& report, const LoadResult& result) {
  Plot plot = EmptyPercentilePlot("Latency of each class by percentile");
  plot.y.title = kIntendedLatency;
  for (size_t i = 0; i < result.classes.size(); ++i) {
    plot.series.push_back(PercentileSeries(
        report.classes[i].name, PlotStyle::kLine, result.classes[i].latency));
  }
  return plot;
}

Plot TimelinePlot(const LoadResult& result) {
  Plot plot{
      .title = "Latency over time",
      .x = {.title = "when requests were meant to be sent, after warm-up",
            .unit = PlotUnit::kSeconds},
      .y = {.title = kIntendedLatency,
            .scale = PlotScaleKind::kLog,
            .unit = PlotUnit::kTime},
      .series = {{.name = "longest", .style = PlotStyle::kBars, .points = {}},
                 {.name = "p99", .style = PlotStyle::kBars, .points = {}},
                 {.name = "p50", .style = PlotStyle::kBars, .points = {}}}};
  for (const TimelinePoint& point : result.timeline) {
    plot.bar_width = result.timeline.front().length_s;
    if (point.requests == 0) continue;
    const int64_t values[] = {point.max, point.p99, point.p50};
    for (size_t i = 0; i < plot.series.size(); ++i) {
      plot.series[i].points.push_back(
          {.x = point.start_s,
           .y = static_cast<double>(std::max<int64_t>(1, values[i]))});
    }
  }
  return plot;
}

Plot AchievedPlot(const LoadReport& report) {
  Plot plot{
      .title = "Achieved by offered rate",
      .x = {.title = "offered, requests per second"},
      .y = {.title = "achieved, requests per second"},
      .series = {{.name = "achieved", .style = PlotStyle::kDots, .points = {}},
                 {.name = "as much as offered",
                  .style = PlotStyle::kDashedLine,
                  .points = {{.x = 0, .y = 0}}}}};
  for (const LoadStep* step : StepsByRate(report)) {
    const LoadResult& result = step->result;
    plot.series[0].points.push_back(
        {.x = result.offered_rate(), .y = result.achieved_rate()});
    plot.series[1].points.push_back(
        {.x = result.offered_rate(), .y = result.offered_rate()});
  }
  return plot;
}

Plot LatencyByRatePlot(const LoadReport& report) {
  Plot plot{.title = "Latency by offered rate",
            .x = {.title = "offered, requests per second"},
            .y = {.title = kIntendedLatency,
                  .scale = PlotScaleKind::kLog,
                  .unit = PlotUnit::kTime},
            .series = {}};
  std::vector<ReportedPercentile> drawn = {{"p50", 50}, {"p99", 99}};
  const std::vector<LatencyBound> bounds =
      report.slo.has_value() ? report.slo->bounds : std::vector<LatencyBound>();
  for (const LatencyBound& bound : bounds) {
    plot.thresholds.push_back(
        {.name = absl::StrCat("SLO ", bound.name, " ",
                              absl::FormatDuration(bound.limit)),
         .y = absl::ToDoubleNanoseconds(bound.limit)});
    if (bound.percentile != 50 && bound.percentile != 99) {
      drawn.push_back({bound.name.c_str(), bound.percentile});
    }
  }
  for (const ReportedPercentile& percentile : drawn) {
    PlotSeries series{
        .name = percentile.name, .style = PlotStyle::kDots, .points = {}};
    for (const LoadStep* step : StepsByRate(report)) {
      const HdrHistogram& latency = step->result.latency;
      if (latency.count() == 0) continue;
      const int64_t value = latency.ValueAtPercentile(percentile.percentile);
      series.points.push_back(
          {.x = step->result.offered_rate(),
           .y = static_cast<double>(std::max<int64_t>(1, value))});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace attn
