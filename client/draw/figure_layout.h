// Where each part of a figure lies.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "client/draw/attention_figure.h"
#include "client/draw/canvas.h"
#include "client/draw/label_text.h"
#include "client/draw/panel_grid.h"

namespace attn {

struct PlacedPanel {
  size_t group = 0;
  size_t panel = 0;
  PixelBox box;
};

// A value: figures can be tested without being drawn.
struct FigureLayout {
  int width = 0;
  int height = 0;
  std::vector<PlacedPanel> panels;
  // Of each scale; its upper end is the scale's.
  std::vector<PixelBox> bars;
  // Short lines from panels and bars to their labels.
  std::vector<PixelBox> ticks;
  // Clean, cut where they would be too long; no two overlap.
  std::vector<FigureText> texts;
  // Of the legend, if there are such cells.
  std::optional<PixelBox> masked_swatch;
  std::optional<PixelBox> not_finite_swatch;
};

// `grid` is that of the figure's panels. Names beside rows and below columns
// stand for every so manieth cell where all would not fit, and upward where
// they are wider than a column.
FigureLayout LayOutFigure(const AttentionFigure& figure, const PanelGrid& grid,
                          const TextRuler& ruler);

// What a text covers.
PixelBox BoxOf(const FigureText& text, const TextRuler& ruler);

}  // namespace attn
