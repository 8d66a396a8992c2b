#include "client/draw/figure_painter.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/draw/colour_map.h"

namespace attn {
namespace {

constexpr Rgb kFrame{90, 90, 90};
constexpr Rgb kBlack{0, 0, 0};
constexpr Rgb kWhite{255, 255, 255};
// Cells of a whole figure that are boxes of their own, to hover over.
constexpr size_t kMostBoxes = 8192;
constexpr int kValueSize = 10;
constexpr int kLeastValueHeight = 18;
// Between a value and the edges of its cell.
constexpr int kValueMargin = 4;
// Where black and white are read equally well.
constexpr double kMiddleLightness = 0.65;

const ColourMap& MapOf(const ColourScale& scale) {
  return scale.diverging ? ColourMap::Diverging() : ColourMap::Sequential();
}

Rgb CellColour(const ColourScale& scale, double value) {
  return std::isfinite(value) ? ColourOf(scale, value) : kNotFiniteColour;
}

PixelBox Framed(const PixelBox& box) {
  return {box.x - 1, box.y - 1, box.width + 2, box.height + 2};
}

// "query 3 "the"", or "queries 8-15".
std::string IndexWords(const FigureAxis& axis, int64_t cell) {
  const int64_t first = axis.begin + cell * axis.step;
  const int64_t last = std::min(first + axis.step, axis.begin + axis.count) - 1;
  if (first < last) return absl::StrCat(axis.title, " ", first, "-", last);
  const auto index = static_cast<size_t>(first);
  if (index >= axis.names.size()) return absl::StrCat(axis.title, " ", first);
  return absl::StrCat(axis.title, " ", first, " \"",
                      CleanText(axis.names[index]), "\"");
}

// One panel of a figure on its canvas.
class PanelPainter {
 public:
  PanelPainter(const AttentionFigure& figure, const PlacedPanel& placed,
               Canvas& canvas)
      : figure_(figure),
        group_(figure.groups[placed.group]),
        panel_(group_.panels[placed.panel]),
        scale_(figure.scales[placed.panel]),
        box_(placed.box),
        canvas_(canvas),
        rows_(static_cast<int>(figure.queries.cells())),
        columns_(static_cast<int>(figure.keys.cells())) {}

  void PaintBoxes() {
    const int width = box_.width / columns_;
    const int height = box_.height / rows_;
    ForEachCell([&](int row, int column, size_t at) {
      const PixelBox cell{box_.x + column * width, box_.y + row * height, width,
                          height};
      Paint paint = HatchPaint{};
      if (!panel_.masked[at]) paint = CellColour(scale_, panel_.values[at]);
      canvas_.Fill(cell, paint, WordsOf(row, column, at));
    });
  }

  void PaintImage() {
    CellImage image{columns_, rows_, {}};
    image.rgba.reserve(panel_.values.size() * 4);
    bool masked = false;
    ForEachCell([&](int /*row*/, int /*column*/, size_t at) {
      const bool hidden = panel_.masked[at];
      masked = masked || hidden;
      const Rgb colour =
          hidden ? kWhite : CellColour(scale_, panel_.values[at]);
      const uint8_t alpha = hidden ? 0 : 255;
      image.rgba.insert(image.rgba.end(),
                        {colour.red, colour.green, colour.blue, alpha});
    });
    if (masked) canvas_.Fill(box_, HatchPaint{});
    canvas_.Cells(box_, std::move(image));
  }

  // All of the panel's, or none.
  void PaintValues(const TextRuler& ruler) {
    const int width = box_.width / columns_;
    const int height = box_.height / rows_;
    if (height < kLeastValueHeight) return;
    std::vector<FigureText> texts;
    bool fits = true;
    ForEachCell([&](int row, int column, size_t at) {
      const double value = panel_.values[at];
      if (panel_.masked[at] || !std::isfinite(value)) return;
      const Rgb under = ColourOf(scale_, value);
      FigureText text;
      text.text = ValueText(value);
      text.x = box_.x + column * width + width / 2;
      text.y = box_.y + row * height + height / 2;
      text.size = kValueSize;
      text.align = TextAlign::kMiddle;
      text.colour =
          ToOkLab(under).lightness < kMiddleLightness ? kWhite : kBlack;
      fits = fits && ruler.Width(text.text, kValueSize) + kValueMargin <= width;
      texts.push_back(std::move(text));
    });
    if (!fits) return;
    for (const FigureText& text : texts) canvas_.Text(text);
  }

 private:
  template <typename Visit>
  void ForEachCell(Visit visit) const {
    size_t at = 0;
    for (int row = 0; row < rows_; ++row) {
      for (int column = 0; column < columns_; ++column)
        visit(row, column, at++);
    }
  }

  std::string WordsOf(int row, int column, size_t at) const {
    std::string words = absl::StrCat(CleanText(group_.title), ", ",
                                     IndexWords(figure_.queries, row), ", ",
                                     IndexWords(figure_.keys, column), ": ");
    if (panel_.masked[at]) return words + "masked";
    return absl::StrCat(words, panel_.title, " ",
                        absl::StrFormat("%.6g", panel_.values[at]));
  }

  std::string ValueText(double value) const {
    const double largest = std::max(std::abs(scale_.low), scale_.high);
    if (largest >= 1000 || largest < 0.1) return absl::StrFormat("%.1e", value);
    // Without the sign of a zero.
    const int digits = largest < 10 ? 2 : 1;
    const std::string text = absl::StrFormat("%.*f", digits, value);
    return text.find_first_not_of("-0.") == std::string::npos
               ? absl::StrFormat("%.*f", digits, 0.0)
               : text;
  }

  const AttentionFigure& figure_;
  const FigureGroup& group_;
  const FigurePanel& panel_;
  const ColourScale& scale_;
  const PixelBox box_;
  Canvas& canvas_;
  int rows_;
  int columns_;
};

void PaintBar(const ColourScale& scale, const PixelBox& box, Canvas& canvas) {
  CellImage image{1, box.height, {}};
  for (int i = 0; i < box.height; ++i) {
    const double position = 1 - static_cast<double>(i) / (box.height - 1);
    const Rgb colour = MapOf(scale).At(position);
    image.rgba.insert(image.rgba.end(),
                      {colour.red, colour.green, colour.blue, 255});
  }
  canvas.Fill(Framed(box), kFrame);
  canvas.Cells(box, std::move(image));
}

}  // namespace

Rgb ColourOf(const ColourScale& scale, double value) {
  // By halves: the range may be more than a double holds.
  return MapOf(scale).At((value / 2 - scale.low / 2) /
                         (scale.high / 2 - scale.low / 2));
}

void PaintFigure(const AttentionFigure& figure, const FigureLayout& layout,
                 const TextRuler& ruler, Canvas& canvas) {
  size_t cells = 0;
  for (const FigureGroup& group : figure.groups) {
    for (const FigurePanel& panel : group.panels) cells += panel.values.size();
  }
  for (const PlacedPanel& placed : layout.panels) {
    canvas.Fill(Framed(placed.box), kFrame);
    PanelPainter painter(figure, placed, canvas);
    if (canvas.has_hover() && cells <= kMostBoxes) {
      painter.PaintBoxes();
    } else {
      painter.PaintImage();
    }
    painter.PaintValues(ruler);
  }
  for (size_t i = 0; i < layout.bars.size(); ++i) {
    PaintBar(figure.scales[i], layout.bars[i], canvas);
  }
  if (layout.masked_swatch) {
    canvas.Fill(Framed(*layout.masked_swatch), kFrame);
    canvas.Fill(*layout.masked_swatch, HatchPaint{});
  }
  if (layout.not_finite_swatch) {
    canvas.Fill(*layout.not_finite_swatch, kNotFiniteColour);
  }
  for (const PixelBox& tick : layout.ticks) canvas.Fill(tick, kFrame);
  for (const FigureText& text : layout.texts) canvas.Text(text);
}

}  // namespace attn
