#include "client/cli/heat_map.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/text_table.h"

namespace attn {
namespace {

constexpr const char* kLevels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr size_t kLevelCount = sizeof(kLevels) / sizeof(kLevels[0]);
constexpr char kMasked[] = "·";
constexpr char kNotFinite[] = "?";
constexpr char kGap[] = "   ";
// Indices of columns are written every so many.
constexpr size_t kRuler = 5;
// 256-colour codes from dark blue to yellow, one for each level.
constexpr int kColours[kLevelCount] = {24, 31, 37, 72, 108, 149, 185, 226};
constexpr int kMaskedColour = 238;

struct Scale {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

Scale ScaleOf(const HeatMapPanel& panel) {
  Scale scale;
  for (size_t i = 0; i < panel.values.size(); ++i) {
    const double value = panel.values[i];
    if (!(*panel.visible)[i] || !std::isfinite(value)) continue;
    scale.low = std::min(scale.low, value);
    scale.high = std::max(scale.high, value);
  }
  return scale;
}

size_t LevelOf(double value, const Scale& scale) {
  if (!(scale.high > scale.low)) return kLevelCount - 1;
  const double share =
      std::clamp((value - scale.low) / (scale.high - scale.low), 0.0, 1.0);
  return std::min(kLevelCount - 1,
                  static_cast<size_t>(share * double{kLevelCount}));
}

std::string PaintGlyph(const char* glyph, int colour,
                       const HeatMapOptions& options) {
  if (!options.colour) return glyph;
  return absl::StrCat("\x1b[38;5;", colour, "m", glyph, "\x1b[0m");
}

std::string Cell(double value, bool visible, const Scale& scale,
                 const HeatMapOptions& options) {
  if (!visible) return PaintGlyph(kMasked, kMaskedColour, options);
  if (!std::isfinite(value)) return kNotFinite;
  const size_t level = LevelOf(value, scale);
  return PaintGlyph(kLevels[level], kColours[level], options);
}

// "0    5    10" over the columns.
std::string Ruler(size_t columns) {
  std::string ruler;
  for (size_t c = 0; c < columns; c += kRuler) {
    ruler += PadRight(absl::StrCat(c), std::min(kRuler, columns - c));
  }
  return ruler;
}

void AppendLine(std::string line, std::string& text) {
  absl::StripTrailingAsciiWhitespace(&line);
  absl::StrAppend(&text, line, "\n");
}

// What every line of a map needs.
struct Layout {
  size_t rows;
  size_t columns;  // drawn
  size_t stride;   // of the matrix
  size_t label_width;
  std::vector<size_t> panel_widths;
  std::vector<Scale> scales;
};

Layout LayOut(const std::vector<HeatMapPanel>& panels,
              const std::vector<std::string>& row_labels, size_t columns,
              const HeatMapOptions& options) {
  Layout layout{.rows = std::min(row_labels.size(), options.max_rows),
                .columns = std::min(columns, options.max_columns),
                .stride = columns,
                .label_width = 0,
                .panel_widths = {},
                .scales = {}};
  for (size_t r = 0; r < layout.rows; ++r) {
    layout.label_width =
        std::max(layout.label_width, DisplayWidth(row_labels[r]));
  }
  for (const HeatMapPanel& panel : panels) {
    layout.panel_widths.push_back(
        std::max(layout.columns, DisplayWidth(panel.title)));
    layout.scales.push_back(ScaleOf(panel));
  }
  return layout;
}

std::string Heading(const std::vector<HeatMapPanel>& panels,
                    const Layout& layout) {
  std::string titles(layout.label_width, ' ');
  std::string rulers(layout.label_width, ' ');
  for (size_t p = 0; p < panels.size(); ++p) {
    titles += kGap + PadRight(panels[p].title, layout.panel_widths[p]);
    rulers += kGap + PadRight(Ruler(layout.columns), layout.panel_widths[p]);
  }
  std::string text;
  AppendLine(titles, text);
  AppendLine(rulers, text);
  return text;
}

bool ShowsNonFinite(const std::vector<HeatMapPanel>& panels) {
  for (const HeatMapPanel& panel : panels) {
    for (size_t i = 0; i < panel.values.size(); ++i) {
      if ((*panel.visible)[i] && !std::isfinite(panel.values[i])) return true;
    }
  }
  return false;
}

std::string Legend(const std::vector<HeatMapPanel>& panels,
                   const Layout& layout) {
  std::string text;
  for (size_t p = 0; p < panels.size(); ++p) {
    const Scale& scale = layout.scales[p];
    AppendLine(scale.low > scale.high
                   ? absl::StrCat(panels[p].title, ": nothing visible")
                   : absl::StrCat(panels[p].title, ": ", kLevels[0], " ",
                                  FormatNumber(scale.low), "  ",
                                  kLevels[kLevelCount - 1], " ",
                                  FormatNumber(scale.high)),
               text);
  }
  AppendLine(absl::StrCat(kMasked, " masked"), text);
  if (ShowsNonFinite(panels)) {
    AppendLine(absl::StrCat(kNotFinite, " not finite (NaN, inf)"), text);
  }
  return text;
}

}  // namespace

std::string RenderHeatMap(const std::vector<HeatMapPanel>& panels,
                          const std::vector<std::string>& row_labels,
                          const std::vector<std::string>& column_labels,
                          const HeatMapOptions& options) {
  const Layout layout =
      LayOut(panels, row_labels, column_labels.size(), options);
  std::string text = Heading(panels, layout);
  for (size_t r = 0; r < layout.rows; ++r) {
    std::string line = PadLeft(row_labels[r], layout.label_width);
    for (size_t p = 0; p < panels.size(); ++p) {
      line += kGap;
      for (size_t c = 0; c < layout.columns; ++c) {
        const size_t i = r * layout.stride + c;
        line += Cell(panels[p].values[i], (*panels[p].visible)[i],
                     layout.scales[p], options);
      }
      line.append(layout.panel_widths[p] - layout.columns, ' ');
    }
    AppendLine(line, text);
  }
  if (layout.rows < row_labels.size() ||
      layout.columns < column_labels.size()) {
    AppendLine(absl::StrCat("(the first ", layout.rows, " of ",
                            row_labels.size(), " rows, ", layout.columns,
                            " of ", column_labels.size(), " columns)"),
               text);
  }
  return text + Legend(panels, layout);
}

}  // namespace attn
