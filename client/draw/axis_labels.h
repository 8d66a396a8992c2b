// The labels of rows and columns that fit, and where they go.
#pragma once

#include <string>
#include <vector>

#include "client/draw/attention_figure.h"
#include "client/draw/label_text.h"

namespace attn {

// One label; `offset` is the pixel of its middle from the first cell's edge.
struct AxisLabel {
  std::string text;
  int offset = 0;
};

struct AxisLabels {
  std::vector<AxisLabel> labels;
  // Names that are wider than a column are read from below to above.
  bool upward = false;
  // Of the letters, in pixels: smaller where that makes room for all.
  int size = 0;
  // Pixels that the longest takes.
  int longest = 0;
};

// Beside rows of `cell` pixels.
AxisLabels RowLabels(const FigureAxis& axis, int cell, const TextRuler& ruler);
// Below columns of `cell` pixels.
AxisLabels ColumnLabels(const FigureAxis& axis, int cell,
                        const TextRuler& ruler);

}  // namespace attn
