// A plot as SVG that stands in an HTML page and takes its colours from there.
#pragma once

#include <string>
#include <vector>

#include "client/load/plot_scale.h"

namespace attn {

struct PlotPoint {
  double x = 0;
  double y = 0;
};

enum class PlotStyle {
  kLine,
  kDashedLine,
  // A line, and a dot at each point.
  kDots,
  // From the low end of the y axis up, `bar_width` wide.
  kBars,
};

struct PlotSeries {
  std::string name;
  PlotStyle style = PlotStyle::kLine;
  // In the order of x.
  std::vector<PlotPoint> points;
};

// A horizontal line that is not to be crossed.
struct PlotThreshold {
  std::string name;
  double y = 0;
};

struct PlotAxis {
  std::string title;
  PlotScaleKind scale = PlotScaleKind::kLinear;
  PlotUnit unit = PlotUnit::kNumber;
};

struct Plot {
  std::string title;
  PlotAxis x;
  PlotAxis y;
  std::vector<PlotSeries> series;
  std::vector<PlotThreshold> thresholds{};
  // Of kBars, in units of x.
  double bar_width = 1;
};

// Classes of CSS for SvgPlotStyle(): series n has class "s<n>". Empty if there
// is no point to be drawn.
std::string DrawSvgPlot(const Plot& plot);

// Rules that colour all plots of a page, dark or light as the reader's screen.
std::string SvgPlotStyle();

}  // namespace attn
