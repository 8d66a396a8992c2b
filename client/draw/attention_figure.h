// What a figure of attention shows: numbers and words, no places.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attn {

// From numbers to colours, for all panels of one kind.
struct ColourScale {
  // With its unit: "logit (nats)".
  std::string label;
  // low < high.
  double low = 0;
  double high = 1;
  // Centred on 0, with low = -high.
  bool diverging = false;
};

// One matrix, row-major: [queries.cells(), keys.cells()] of its figure.
struct FigurePanel {
  std::string title;
  std::vector<double> values;
  // As many; a masked cell's value is not looked at.
  std::vector<bool> masked;
};

// Panels that stand side by side: those of one head.
struct FigureGroup {
  std::string title;
  std::vector<FigurePanel> panels;
};

// What the rows or the columns are.
struct FigureAxis {
  std::string title;
  // Indices [begin, begin + count), `step` of them in a cell.
  int64_t begin = 0;
  int64_t count = 0;
  int64_t step = 1;
  // Of each index, or less; the rest, and all where cells hold several, are
  // numbered.
  std::vector<std::string> names;

  int64_t cells() const { return (count + step - 1) / step; }
};

struct AttentionFigure {
  std::string title;
  std::string subtitle;
  FigureAxis queries;
  FigureAxis keys;
  // Of the first, the second ... panel of each group.
  std::vector<ColourScale> scales;
  // One or more, each with scales.size() panels.
  std::vector<FigureGroup> groups;
};

}  // namespace attn
