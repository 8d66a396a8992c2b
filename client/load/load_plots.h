// The plots of a load report.
#pragma once

#include "client/load/load_report.h"
#include "client/load/svg_plot.h"

namespace attn {

// Latency by percentile, on an axis where each further nine has the same room:
// from the intended and from the actual send.
Plot PercentilePlot(const LoadResult& result);
// The same for each class, from the intended send.
Plot ClassPercentilePlot(const LoadReport& report, const LoadResult& result);
// The longest latency and p99 of each second.
Plot TimelinePlot(const LoadResult& result);
// Achieved by offered rate of all steps, beside what was offered.
Plot AchievedPlot(const LoadReport& report);
// Latency by offered rate, at p50, p99 and the percentiles of the SLO, with its
// bounds.
Plot LatencyByRatePlot(const LoadReport& report);

}  // namespace attn
