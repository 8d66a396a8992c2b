#include "client/load/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/html_text.h"

namespace attn {
namespace {

// In pixels of the drawing, which scales with the page.
constexpr double kPlotWidth = 560;
constexpr double kPlotHeight = 320;
constexpr double kLeftMargin = 66;
constexpr double kRightMargin = 26;
constexpr double kTopMargin = 58;
constexpr double kBottomMargin = 54;
constexpr int kColours = 6;
// Points closer than this cannot be told apart.
constexpr double kLeastMove = 0.4;

struct PlotRange {
  double low = 0;
  double high = 0;
};

// Of all that is drawn, thresholds too; absent without a point.
std::optional<PlotRange> RangeOf(const Plot& plot, bool of_x) {
  std::optional<PlotRange> range;
  const auto take = [&range](double value) {
    if (!range.has_value()) range = {value, value};
    range->low = std::min(range->low, value);
    range->high = std::max(range->high, value);
  };
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      take(of_x ? point.x : point.y);
      if (of_x && series.style == PlotStyle::kBars) {
        take(point.x + plot.bar_width);
      }
    }
  }
  if (!range.has_value() || of_x) return range;
  for (const PlotThreshold& threshold : plot.thresholds) take(threshold.y);
  return range;
}

// Thread-compatible.
class PlotDrawing {
 public:
  PlotDrawing(const Plot& plot, const PlotRange& x, const PlotRange& y)
      : plot_(plot),
        x_(plot.x.scale, plot.x.unit, x.low, x.high),
        y_(plot.y.scale, plot.y.unit, y.low, y.high) {}

  std::string Draw() {
    absl::StrAppendFormat(
        &svg_,
        "<svg class=\"plot\" viewBox=\"0 0 %g %g\" role=\"img\" "
        "aria-label=\"%s\" xmlns=\"http://www.w3.org/2000/svg\">\n",
        kPlotWidth, kPlotHeight, EscapeHtml(plot_.title));
    DrawAxes();
    for (size_t i = 0; i < plot_.series.size(); ++i) DrawSeries(i);
    for (const PlotThreshold& threshold : plot_.thresholds) {
      DrawThreshold(threshold);
    }
    DrawLegend();
    svg_ += "</svg>\n";
    return std::move(svg_);
  }

 private:
  double X(double value) const {
    return kLeftMargin +
           x_.At(value) * (kPlotWidth - kLeftMargin - kRightMargin);
  }
  double Y(double value) const {
    return Bottom() - y_.At(value) * (Bottom() - kTopMargin);
  }
  static double Bottom() { return kPlotHeight - kBottomMargin; }
  static double Right() { return kPlotWidth - kRightMargin; }

  void Line(const char* style, double x1, double y1, double x2, double y2) {
    absl::StrAppendFormat(&svg_,
                          "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" "
                          "x2=\"%.1f\" y2=\"%.1f\"/>\n",
                          style, x1, y1, x2, y2);
  }

  void Text(const char* anchor, double x, double y, const std::string& text) {
    absl::StrAppendFormat(
        &svg_, "<text text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
        anchor, x, y, EscapeHtml(text));
  }

  void DrawAxes() {
    constexpr double kGap = 8;
    constexpr double kHalfText = 4;
    for (const PlotScale::Tick& tick : x_.ticks()) {
      Line("grid", X(tick.value), kTopMargin, X(tick.value), Bottom());
      Text("middle", X(tick.value), Bottom() + 2 * kGap + 2, tick.text);
    }
    for (const PlotScale::Tick& tick : y_.ticks()) {
      Line("grid", kLeftMargin, Y(tick.value), Right(), Y(tick.value));
      Text("end", kLeftMargin - kGap, Y(tick.value) + kHalfText, tick.text);
    }
    Line("axis", kLeftMargin, Bottom(), Right(), Bottom());
    Line("axis", kLeftMargin, kTopMargin, kLeftMargin, Bottom());
    Text("middle", (kLeftMargin + Right()) / 2, kPlotHeight - kGap,
         plot_.x.title);
    Text("start", kGap, kTopMargin - 2 * kGap, plot_.y.title);
  }

  void DrawSeries(size_t index) {
    const PlotSeries& series = plot_.series[index];
    const int colour = static_cast<int>(index % kColours);
    if (series.style == PlotStyle::kBars) {
      DrawBars(series, colour);
      return;
    }
    std::string path;
    std::optional<PlotPoint> last;
    for (size_t i = 0; i < series.points.size(); ++i) {
      const PlotPoint at{X(series.points[i].x), Y(series.points[i].y)};
      const bool ends = i + 1 == series.points.size();
      if (last.has_value() && !ends && std::abs(at.x - last->x) < kLeastMove &&
          std::abs(at.y - last->y) < kLeastMove) {
        continue;
      }
      absl::StrAppendFormat(&path, "%s%.1f %.1f", last.has_value() ? "L" : "M",
                            at.x, at.y);
      last = at;
    }
    absl::StrAppendFormat(
        &svg_, "<path class=\"line s%d%s\" d=\"%s\"/>\n", colour,
        series.style == PlotStyle::kDashedLine ? " dashed" : "", path);
    if (series.style == PlotStyle::kDots) DrawDots(series, colour);
  }

  void DrawDots(const PlotSeries& series, int colour) {
    for (const PlotPoint& point : series.points) {
      absl::StrAppendFormat(
          &svg_,
          "<circle class=\"dot s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n",
          colour, X(point.x), Y(point.y));
    }
  }

  void DrawBars(const PlotSeries& series, int colour) {
    constexpr double kShareOfWidth = 0.9;
    for (const PlotPoint& point : series.points) {
      const double left = X(point.x);
      const double width =
          (X(point.x + plot_.bar_width) - left) * kShareOfWidth;
      absl::StrAppendFormat(
          &svg_,
          "<rect class=\"bar s%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
          "height=\"%.1f\"/>\n",
          colour, left, Y(point.y), width, Bottom() - Y(point.y));
    }
  }

  void DrawThreshold(const PlotThreshold& threshold) {
    constexpr double kAbove = 5;
    const double y = Y(threshold.y);
    Line("limit", kLeftMargin, y, Right(), y);
    Text("end", Right() - kAbove, y - kAbove, threshold.name);
  }

  void DrawLegend() {
    constexpr double kKeyWidth = 18;
    constexpr double kTextWidth = 7.2;
    constexpr double kLegendY = 18;
    double x = kLeftMargin;
    for (size_t i = 0; i < plot_.series.size(); ++i) {
      const PlotSeries& series = plot_.series[i];
      const std::string style =
          absl::StrFormat("line s%d%s", static_cast<int>(i % kColours),
                          series.style == PlotStyle::kDashedLine ? " dashed"
                          : series.style == PlotStyle::kBars     ? " key"
                                                                 : "");
      Line(style.c_str(), x, kLegendY - 4, x + kKeyWidth, kLegendY - 4);
      Text("start", x + kKeyWidth + 6, kLegendY, series.name);
      x +=
          kKeyWidth + 24 + kTextWidth * static_cast<double>(series.name.size());
    }
  }

  const Plot& plot_;
  const PlotScale x_;
  const PlotScale y_;
  std::string svg_;
};

}  // namespace

std::string DrawSvgPlot(const Plot& plot) {
  const auto x = RangeOf(plot, true);
  const auto y = RangeOf(plot, false);
  if (!x.has_value() || !y.has_value()) return "";
  return PlotDrawing(plot, *x, *y).Draw();
}

// The colours are those of Okabe and Ito (2008), which most colour-blind people
// can tell apart; darker or lighter with the page.
std::string SvgPlotStyle() {
  return R"(
.plot{width:100%;max-width:640px;height:auto;display:block}
.plot text{font:13px system-ui,sans-serif;fill:var(--soft)}
.plot .grid{stroke:var(--rule);stroke-width:1}
.plot .axis{stroke:var(--soft);stroke-width:1}
.plot .line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}
.plot .key{stroke-width:9}
.plot .dashed{stroke-dasharray:6 4}
.plot .dot,.plot .bar{fill:var(--c)}
.plot .limit{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:2 3}
.s0{--c:#0072b2}.s1{--c:#d55e00}.s2{--c:#009e73}
.s3{--c:#aa4499}.s4{--c:#b58900}.s5{--c:#3a9bd9}
@media (prefers-color-scheme:dark){
.s0{--c:#56b4e9}.s1{--c:#ff9e57}.s2{--c:#3fcf9f}
.s3{--c:#e39fcb}.s4{--c:#f0c742}.s5{--c:#9ad0f5}}
)";
}

}  // namespace attn
