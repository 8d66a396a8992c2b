#include "client/cli/heatmap_figure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/heat_map.h"
#include "client/cli/text_table.h"
#include "client/draw/label_text.h"
#include "client/io/json_tensor.h"

namespace attn {
namespace {

// Over the panels of one kind.
struct PanelSummary {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  int64_t cells = 0;
  int64_t masked = 0;
  int64_t not_finite = 0;

  bool any() const { return low <= high; }
};

PanelSummary Summarise(const AttentionFigure& figure, size_t kind) {
  PanelSummary summary;
  for (const FigureGroup& group : figure.groups) {
    const FigurePanel& panel = group.panels[kind];
    for (size_t i = 0; i < panel.values.size(); ++i) {
      ++summary.cells;
      const double value = panel.values[i];
      if (panel.masked[i]) {
        ++summary.masked;
      } else if (!std::isfinite(value)) {
        ++summary.not_finite;
      } else {
        summary.low = std::min(summary.low, value);
        summary.high = std::max(summary.high, value);
      }
    }
  }
  return summary;
}

std::string PoolWords(const ScoreQuestion& question) {
  if (!question.pools()) return "";
  std::string name = absl::AsciiStrToLower(v1::Pooling_Name(question.pooling));
  name = name.substr(name.rfind('_') + 1);
  return absl::StrCat(", ", name, " of ", question.query_step, " × ",
                      question.key_step);
}

ColourScale ScaleFor(const std::string& label, const PanelSummary& summary,
                     bool centred, const std::optional<double>& limit) {
  ColourScale scale;
  scale.label = label;
  const double largest =
      summary.any() ? std::max(std::abs(summary.low), std::abs(summary.high))
                    : 0;
  scale.diverging = centred || (summary.any() && summary.low < 0);
  // Its half is above 0, too, which that of the least number of all is not.
  scale.high = std::max(limit.value_or(largest > 0 ? largest : 1),
                        std::numeric_limits<double>::min());
  scale.low = scale.diverging ? -scale.high : 0;
  if (largest > scale.high) {
    absl::StrAppend(&scale.label, ", up to ", FormatNumber(scale.high));
  }
  return scale;
}

FigureAxis AxisOf(const std::string& title, int64_t begin, int64_t count,
                  int64_t step, const std::vector<std::string>& names) {
  return {.title = title,
          .begin = begin,
          .count = count,
          .step = step,
          .names = names};
}

// "3 the", "8-15"
std::vector<std::string> CellNames(const FigureAxis& axis) {
  std::vector<std::string> labels;
  for (int64_t cell = 0; cell < axis.cells(); ++cell) {
    const int64_t first = axis.begin + cell * axis.step;
    const int64_t last =
        std::min(first + axis.step, axis.begin + axis.count) - 1;
    if (first < last) {
      labels.push_back(absl::StrCat(first, "-", last));
    } else if (first < static_cast<int64_t>(axis.names.size())) {
      labels.push_back(
          absl::StrCat(axis.names[static_cast<size_t>(first)], " ", first));
    } else {
      labels.push_back(absl::StrCat(first));
    }
  }
  return labels;
}

// "keys", or "keys 100-399, 4 in a column": labels stand beside rows only.
std::string ColumnWords(const FigureAxis& axis) {
  std::string words = absl::StrCat(axis.title, "s");
  if (axis.begin > 0 || axis.step > 1) {
    absl::StrAppend(&words, " ", axis.begin, "-", axis.begin + axis.count - 1);
  }
  if (axis.step > 1) absl::StrAppend(&words, ", ", axis.step, " in a column,");
  return words;
}

nlohmann::json AxisToJson(const FigureAxis& axis) {
  return {{"begin", axis.begin},
          {"end", axis.begin + axis.count},
          {"step", axis.step},
          {"cells", axis.cells()}};
}

}  // namespace

AttentionFigure MakeFigure(const SeenScores& seen,
                           const ScoreQuestion& question,
                           const TokenNames& names, const ScaleLimits& limits) {
  AttentionFigure figure;
  figure.queries = AxisOf("query", question.query_begin, question.query_count,
                          question.query_step, names.queries);
  figure.keys = AxisOf("key", question.key_begin, question.key_count,
                       question.key_step, names.keys);
  figure.subtitle =
      absl::StrCat("batch ", question.batch, " · ", seen.report.pipeline());
  for (const SeenHead& head : seen.heads) {
    FigureGroup& group = figure.groups.emplace_back();
    group.title = absl::StrCat("head ", head.head);
    if (question.logits) {
      group.panels.push_back({"logits", head.logits, head.masked});
    }
    if (question.weights) {
      group.panels.push_back({"weights", head.weights, head.masked});
    }
  }
  // Of the scores before softcap, bias and mask.
  if (question.logits) {
    figure.scales.push_back(
        ScaleFor(absl::StrCat("logit (nats)", PoolWords(question)),
                 Summarise(figure, 0), /*centred=*/true, limits.logit));
  }
  if (question.weights) {
    figure.scales.push_back(
        ScaleFor(absl::StrCat("weight", PoolWords(question)),
                 Summarise(figure, figure.scales.size()), /*centred=*/false,
                 limits.weight));
  }
  return figure;
}

std::string FigureToText(const AttentionFigure& figure, bool colour) {
  const std::vector<std::string> rows = CellNames(figure.queries);
  const std::vector<std::string> columns = CellNames(figure.keys);
  std::string text;
  if (!figure.title.empty()) {
    absl::StrAppend(&text, CleanText(figure.title), "\n");
  }
  absl::StrAppend(&text, CleanText(figure.subtitle), "\n");
  for (const FigureGroup& group : figure.groups) {
    std::vector<HeatMapPanel> panels;
    // RenderHeatMap() asks for what is visible.
    std::vector<std::vector<bool>> visible;
    visible.reserve(group.panels.size());
    for (size_t p = 0; p < group.panels.size(); ++p) {
      const FigurePanel& panel = group.panels[p];
      visible.push_back(panel.masked);
      visible.back().flip();
      panels.push_back({.title = figure.scales[p].label,
                        .values = panel.values,
                        .visible = &visible.back()});
    }
    absl::StrAppend(&text, "\n", group.title, ": queries down, ",
                    ColumnWords(figure.keys), " across\n",
                    RenderHeatMap(panels, rows, columns,
                                  {.colour = colour,
                                   .max_rows = rows.size(),
                                   .max_columns = columns.size()}));
  }
  return text;
}

nlohmann::json FigureToJson(const AttentionFigure& figure,
                            const ScoreQuestion& question) {
  nlohmann::json panels = nlohmann::json::object();
  for (size_t kind = 0; kind < figure.scales.size(); ++kind) {
    const PanelSummary summary = Summarise(figure, kind);
    const ColourScale& scale = figure.scales[kind];
    panels[figure.groups[0].panels[kind].title] = {
        {"min", summary.any() ? NumberToJson(summary.low) : nullptr},
        {"max", summary.any() ? NumberToJson(summary.high) : nullptr},
        {"label", scale.label},
        {"scale", {scale.low, scale.high}},
        {"colours", scale.diverging ? "diverging" : "sequential"},
        {"cells", summary.cells},
        {"masked", summary.masked},
        {"not_finite", summary.not_finite}};
  }
  return {{"batch", question.batch},
          {"heads", question.heads},
          {"queries", AxisToJson(figure.queries)},
          {"keys", AxisToJson(figure.keys)},
          {"panels", panels}};
}

std::string DescribeFigure(const AttentionFigure& figure) {
  std::string text;
  PanelSummary summary;
  for (size_t kind = 0; kind < figure.scales.size(); ++kind) {
    summary = Summarise(figure, kind);
    absl::StrAppend(&text, kind == 0 ? "" : ", ",
                    figure.groups[0].panels[kind].title, " ");
    absl::StrAppend(&text, summary.any()
                               ? absl::StrCat(FormatNumber(summary.low), " to ",
                                              FormatNumber(summary.high))
                               : "without a finite value");
    if (summary.not_finite > 0) {
      absl::StrAppend(&text, " (", summary.not_finite, " cells not finite)");
    }
  }
  if (summary.masked > 0) {
    absl::StrAppend(&text, "; ", summary.masked, " of ", summary.cells,
                    " cells masked");
  }
  return text;
}

}  // namespace attn
