#include "client/draw/figure_layout.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "client/draw/axis_labels.h"
#include "client/draw/axis_ticks.h"
#include "client/draw/colour_map.h"
#include "client/draw/figure_metrics.h"

namespace attn {
namespace {

namespace metrics = figure_metrics;

constexpr Rgb kInk{34, 34, 34};
constexpr Rgb kPaleInk{95, 95, 95};
// Values and their ticks, in pixels of a bar.
constexpr int kTickDistance = 40;

class FigureArranger {
 public:
  FigureArranger(const AttentionFigure& figure, const PanelGrid& grid,
                 const TextRuler& ruler)
      : figure_(figure),
        grid_(grid),
        ruler_(ruler),
        rows_(RowLabels(figure.queries, grid.cell_height, ruler)),
        columns_(ColumnLabels(figure.keys, grid.cell_width, ruler)) {}

  FigureLayout Arrange() {
    Measure();
    PlaceTitles();
    PlacePanels();
    PlaceKeyTitle();
    PlaceBars();
    PlaceLegend();
    layout_.height = bottom_ + metrics::kMargin;
    return std::move(layout_);
  }

 private:
  int panels() const { return static_cast<int>(figure_.scales.size()); }
  int groups() const { return static_cast<int>(figure_.groups.size()); }

  int WidthOf(const std::string& text, int size) const {
    return static_cast<int>(std::ceil(ruler_.Width(text, size)));
  }

  void Measure() {
    panel_width_ = static_cast<int>(figure_.keys.cells()) * grid_.cell_width;
    panel_height_ =
        static_cast<int>(figure_.queries.cells()) * grid_.cell_height;
    place_ = std::max(panel_width_, metrics::kLeastPlace);
    group_width_ = panels() * place_ + (panels() - 1) * metrics::kPanelGap;
    left_ = metrics::kMargin + metrics::kAxisTitle + rows_.longest +
            metrics::kTickGap + metrics::kTickLength;
    right_ = left_ + grid_.group_columns * group_width_ +
             (grid_.group_columns - 1) * metrics::kGroupGap;
    PlaceBarColumns();
    const int title = std::max(WidthOf(figure_.title, metrics::kTitleSize),
                               WidthOf(figure_.subtitle, metrics::kTextSize));
    layout_.width =
        std::max(layout_.width,
                 std::min(title + 2 * metrics::kMargin, metrics::kLeastWidth));
  }

  // Bars, their ticks' labels and their own, as wide as they come out.
  void PlaceBarColumns() {
    int x = right_ + metrics::kGroupGap;
    for (const ColourScale& scale : figure_.scales) {
      bar_columns_.push_back(x);
      int widest = 0;
      for (const ValueTick& tick :
           ValueTicks(scale.low, scale.high, MostTicks())) {
        widest = std::max(widest, WidthOf(TickText(tick), metrics::kLabelSize));
      }
      x += metrics::kBarWidth + metrics::kTickLength + 3 * metrics::kTickGap +
           widest + metrics::kTextLine;
      layout_.width = x + metrics::kMargin;
      x += metrics::kBarGap;
    }
  }

  // From the top of the first panel to the end of the last.
  int grid_height() const {
    return grid_.group_rows * panel_height_ +
           (grid_.group_rows - 1) * (metrics::kGroupHead + metrics::kRowGap);
  }
  int BarHeight() const {
    int height =
        std::clamp(grid_height(), metrics::kLeastBar, metrics::kLongestBar);
    for (const ColourScale& scale : figure_.scales) {
      height = std::max(height, WidthOf(BarText(scale), metrics::kTextSize));
    }
    return height;
  }
  int MostTicks() const { return std::max(BarHeight() / kTickDistance, 2) + 1; }
  std::string TickText(const ValueTick& tick) const {
    return FitText(tick.label, metrics::kLongestTick, metrics::kLabelSize,
                   ruler_);
  }
  std::string BarText(const ColourScale& scale) const {
    return FitText(scale.label, metrics::kLongestBar, metrics::kTextSize,
                   ruler_);
  }

  void AddText(const std::string& text, int x, int y, int size,
               TextAlign align) {
    layout_.texts.push_back({.text = text,
                             .x = x,
                             .y = y,
                             .size = size,
                             .align = align,
                             .upward = false,
                             .colour = kInk});
  }

  void PlaceTitles() {
    const int width = layout_.width - 2 * metrics::kMargin;
    bottom_ = metrics::kMargin;
    if (!figure_.title.empty()) {
      AddText(FitText(figure_.title, width, metrics::kTitleSize, ruler_),
              metrics::kMargin, bottom_ + metrics::kTitleLine / 2,
              metrics::kTitleSize, TextAlign::kStart);
      bottom_ += metrics::kTitleLine;
    }
    if (!figure_.subtitle.empty()) {
      AddText(FitText(figure_.subtitle, width, metrics::kTextSize, ruler_),
              metrics::kMargin, bottom_ + metrics::kTextLine / 2,
              metrics::kTextSize, TextAlign::kStart);
      layout_.texts.back().colour = kPaleInk;
      bottom_ += 2 * metrics::kTextLine;
    }
  }

  void PlacePanels() {
    const int top = bottom_ + metrics::kGroupHead;
    first_panel_ = top;
    for (int g = 0; g < groups(); ++g) {
      const int x =
          left_ + g % grid_.group_columns * (group_width_ + metrics::kGroupGap);
      const int y =
          top + g / grid_.group_columns *
                    (panel_height_ + metrics::kGroupHead + metrics::kRowGap);
      PlaceGroup(g, x, y);
      last_panel_ = y + panel_height_;
    }
    PixelBox title{metrics::kMargin + metrics::kTextLine / 2,
                   (first_panel_ + last_panel_) / 2, 0, 0};
    AddText(figure_.queries.title, title.x, title.y, metrics::kTextSize,
            TextAlign::kMiddle);
    layout_.texts.back().upward = true;
  }

  void PlaceGroup(int g, int x, int y) {
    const FigureGroup& group = figure_.groups[static_cast<size_t>(g)];
    const PixelBox place{x, y - metrics::kTextLine - metrics::kTextLine / 2,
                         group_width_, 0};
    AddTitle(group.title, place, group_width_ - place_ + panel_width_,
             metrics::kTextSize);
    const bool is_lowest = g + grid_.group_columns >= groups();
    for (int p = 0; p < panels(); ++p) {
      const PixelBox box{x + p * (place_ + metrics::kPanelGap), y, panel_width_,
                         panel_height_};
      layout_.panels.push_back(
          {static_cast<size_t>(g), static_cast<size_t>(p), box});
      const std::string& title = group.panels[static_cast<size_t>(p)].title;
      AddTitle(title, {box.x, y - metrics::kTextLine / 2, place_, 0}, box.width,
               metrics::kLabelSize);
      layout_.texts.back().colour = kPaleInk;
      if (p == 0 && g % grid_.group_columns == 0) LabelRows(box);
      if (is_lowest) LabelColumns(box);
    }
  }

  // Over the middle of what has `width` pixels; a wider one begins where
  // `place` does, whose width is the most it gets.
  void AddTitle(const std::string& title, const PixelBox& place, int width,
                int size) {
    const std::string text = FitText(title, place.width, size, ruler_);
    const int half = WidthOf(text, size) / 2 + 1;
    AddText(text, place.x + std::max(width / 2, half), place.y, size,
            TextAlign::kMiddle);
  }

  void LabelRows(const PixelBox& box) {
    for (const AxisLabel& label : rows_.labels) {
      const int y = box.y + label.offset;
      layout_.ticks.push_back(
          {box.x - 1 - metrics::kTickLength, y, metrics::kTickLength, 1});
      AddText(label.text, box.x - 1 - metrics::kTickLength - metrics::kTickGap,
              y, rows_.size, TextAlign::kEnd);
    }
  }

  void LabelColumns(const PixelBox& box) {
    const int tick = box.bottom() + 1;
    const int edge = tick + metrics::kTickLength + metrics::kTickGap;
    for (const AxisLabel& label : columns_.labels) {
      const int x = box.x + label.offset;
      const int half = WidthOf(label.text, columns_.size) / 2 + 1;
      // The next panel's labels begin where this one's must have ended.
      const int margin = metrics::kPanelGap / 2 - 1;
      if (!columns_.upward &&
          (x - half < box.x - margin || x + half > box.x + place_ + margin)) {
        continue;
      }
      layout_.ticks.push_back({x, tick, 1, metrics::kTickLength});
      AddText(
          label.text, x,
          columns_.upward ? edge : edge + metrics::LineOf(columns_.size) / 2,
          columns_.size,
          columns_.upward ? TextAlign::kEnd : TextAlign::kMiddle);
      layout_.texts.back().upward = columns_.upward;
    }
    bottom_ = std::max(
        bottom_, edge + (columns_.upward ? columns_.longest
                                         : metrics::LineOf(columns_.size)));
  }

  void PlaceKeyTitle() {
    AddText(figure_.keys.title, (left_ + right_) / 2,
            bottom_ + metrics::kTextLine / 2 + metrics::kTickGap,
            metrics::kTextSize, TextAlign::kMiddle);
    bottom_ += metrics::kTextLine + metrics::kTickGap;
  }

  void PlaceBars() {
    for (size_t i = 0; i < figure_.scales.size(); ++i) {
      const PixelBox bar{bar_columns_[i], first_panel_, metrics::kBarWidth,
                         BarHeight()};
      layout_.bars.push_back(bar);
      LabelBar(bar, figure_.scales[i]);
      bottom_ = std::max(bottom_, bar.bottom() + metrics::kTextLine);
    }
  }

  void LabelBar(const PixelBox& bar, const ColourScale& scale) {
    const int labels =
        bar.right() + 1 + metrics::kTickLength + metrics::kTickGap;
    int widest = 0;
    for (const ValueTick& tick :
         ValueTicks(scale.low, scale.high, MostTicks())) {
      // By halves, as the range may be more than a double holds.
      const double share =
          (tick.value / 2 - scale.low / 2) / (scale.high / 2 - scale.low / 2);
      const int y =
          bar.y + static_cast<int>(std::lround((1 - share) * (bar.height - 1)));
      layout_.ticks.push_back({bar.right() + 1, y, metrics::kTickLength, 1});
      const std::string text = TickText(tick);
      AddText(text, labels, y, metrics::kLabelSize, TextAlign::kStart);
      widest = std::max(widest, WidthOf(text, metrics::kLabelSize));
    }
    AddText(BarText(scale),
            labels + widest + metrics::kTickGap + metrics::kTextLine / 2,
            bar.y + bar.height / 2, metrics::kTextSize, TextAlign::kMiddle);
    layout_.texts.back().upward = true;
  }

  // Whether some cell is masked, and whether some other is not finite.
  void PlaceLegend() {
    bool masked = false;
    bool not_finite = false;
    for (const FigureGroup& group : figure_.groups) {
      for (const FigurePanel& panel : group.panels) {
        for (size_t i = 0; i < panel.values.size(); ++i) {
          masked = masked || panel.masked[i];
          not_finite = not_finite ||
                       (!panel.masked[i] && !std::isfinite(panel.values[i]));
        }
      }
    }
    if (!masked && !not_finite) return;
    const int y = bottom_ + metrics::kTextLine / 2;
    int x = left_;
    if (masked) layout_.masked_swatch = PlaceSwatch("masked", x, y);
    if (not_finite) {
      layout_.not_finite_swatch = PlaceSwatch("not finite (NaN, inf)", x, y);
    }
    bottom_ = y + metrics::kSwatch;
  }

  // Moves `x` behind it.
  PixelBox PlaceSwatch(const std::string& text, int& x, int y) {
    const PixelBox swatch{x, y, 2 * metrics::kSwatch, metrics::kSwatch};
    const int begin = swatch.right() + 2 * metrics::kTickGap;
    AddText(text, begin, y + metrics::kSwatch / 2, metrics::kLabelSize,
            TextAlign::kStart);
    x = begin + WidthOf(text, metrics::kLabelSize) + metrics::kGroupGap;
    return swatch;
  }

  const AttentionFigure& figure_;
  const PanelGrid& grid_;
  const TextRuler& ruler_;
  AxisLabels rows_;
  AxisLabels columns_;
  FigureLayout layout_;
  int panel_width_ = 0;
  int panel_height_ = 0;
  // Of a panel with its title.
  int place_ = 0;
  int group_width_ = 0;
  // Left edges.
  std::vector<int> bar_columns_;
  // Of the panels together.
  int left_ = 0;
  int right_ = 0;
  int first_panel_ = 0;
  int last_panel_ = 0;
  // Of what has been placed.
  int bottom_ = 0;
};

}  // namespace

FigureLayout LayOutFigure(const AttentionFigure& figure, const PanelGrid& grid,
                          const TextRuler& ruler) {
  return FigureArranger(figure, grid, ruler).Arrange();
}

PixelBox BoxOf(const FigureText& text, const TextRuler& ruler) {
  const int length =
      static_cast<int>(std::ceil(ruler.Width(text.text, text.size)));
  const int height = metrics::LineOf(text.size);
  int before = 0;
  if (text.align == TextAlign::kMiddle) before = length / 2;
  if (text.align == TextAlign::kEnd) before = length;
  if (text.upward) {
    return {text.x - height / 2, text.y + before - length, height, length};
  }
  return {text.x - before, text.y - height / 2, length, height};
}

}  // namespace attn
