#include "tests/client/draw/sample_figure.h"

#include <string>

namespace attn {
namespace {

FigureAxis Axis(const std::string& title, int64_t count, int64_t step,
                bool tokens) {
  FigureAxis axis{
      .title = title, .begin = 0, .count = count, .step = step, .names = {}};
  for (int64_t i = 0; tokens && i < count; ++i) {
    // Of all lengths.
    axis.names.push_back("tok" +
                         std::string(static_cast<size_t>(i * 7 % 23), 'm') +
                         std::to_string(i));
  }
  return axis;
}

}  // namespace

AttentionFigure SampleFigure(const SampleShape& shape) {
  AttentionFigure figure;
  figure.title = "A sample of attention";
  figure.subtitle = "batch 0";
  figure.queries = Axis("query", shape.queries, shape.query_step, shape.tokens);
  figure.keys = Axis("key", shape.keys, shape.key_step, shape.tokens);
  figure.scales = {
      {.label = "logit (nats)", .low = -3, .high = 3, .diverging = true},
      {.label = "weight", .low = 0, .high = 1}};
  const int64_t rows = figure.queries.cells();
  const int64_t columns = figure.keys.cells();
  for (int g = 0; g < shape.groups; ++g) {
    FigureGroup group;
    group.title = "head " + std::to_string(g);
    group.panels = {{.title = "logits", .values = {}, .masked = {}},
                    {.title = "weights", .values = {}, .masked = {}}};
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const bool masked = j > i + columns - rows;
        const auto back = static_cast<double>(i + columns - rows - j);
        group.panels[0].values.push_back(3 - back / 4);
        group.panels[1].values.push_back(1 / (1 + back));
        for (FigurePanel& panel : group.panels) panel.masked.push_back(masked);
      }
    }
    figure.groups.push_back(std::move(group));
  }
  return figure;
}

}  // namespace attn
