#include "client/draw/axis_labels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/draw/axis_ticks.h"
#include "client/draw/figure_metrics.h"

namespace attn {
namespace {

namespace metrics = figure_metrics;

// Between two labels side by side.
constexpr int kLabelGap = 8;
// From one number beside rows to the next.
constexpr int kNumbersApart = 20;

int Width(const std::string& text, int size, const TextRuler& ruler) {
  return static_cast<int>(std::ceil(ruler.Width(text, size)));
}

// The largest letters whose lines are no higher than a cell, if there are any.
int SizeFor(int cell) {
  for (int size = metrics::kLabelSize; size >= metrics::kLeastLabelSize;
       --size) {
    if (metrics::LineOf(size) <= cell) return size;
  }
  return metrics::kLabelSize;
}

bool IsNamed(const FigureAxis& axis) {
  return axis.step == 1 && axis.begin < static_cast<int64_t>(axis.names.size());
}

int OffsetOf(const FigureAxis& axis, int64_t index, int cell) {
  const double cells = (static_cast<double>(index - axis.begin) + 0.5) /
                       static_cast<double>(axis.step);
  return static_cast<int>(cells * cell);
}

void Add(std::string text, int offset, const TextRuler& ruler,
         AxisLabels& labels) {
  labels.longest = std::max(labels.longest, Width(text, labels.size, ruler));
  labels.labels.push_back({std::move(text), offset});
}

// Each index by its name, so many apart that their lines do not meet.
AxisLabels Named(const FigureAxis& axis, int cell, const TextRuler& ruler) {
  AxisLabels labels;
  labels.size = SizeFor(cell);
  const int64_t stride = (metrics::LineOf(labels.size) + cell - 1) / cell;
  for (int64_t i = 0; i < axis.count; i += stride) {
    const auto index = static_cast<size_t>(axis.begin + i);
    const std::string text =
        index < axis.names.size()
            ? FitText(axis.names[index], metrics::kLongestName, labels.size,
                      ruler)
            : absl::StrCat(index);
    Add(text, OffsetOf(axis, axis.begin + i, cell), ruler, labels);
  }
  return labels;
}

// Multiples of a nice number, `pixels` or more apart.
AxisLabels Numbered(const FigureAxis& axis, int pixels, int cell,
                    const TextRuler& ruler) {
  const double least =
      static_cast<double>(pixels) * static_cast<double>(axis.step) / cell;
  const auto step =
      static_cast<int64_t>(std::llround(NiceStep(std::max(least, 1.0))));
  AxisLabels labels;
  labels.size = metrics::kLabelSize;
  for (const int64_t index : IndexTicks(axis.begin, axis.count, step)) {
    Add(absl::StrCat(index), OffsetOf(axis, index, cell), ruler, labels);
  }
  return labels;
}

}  // namespace

AxisLabels RowLabels(const FigureAxis& axis, int cell, const TextRuler& ruler) {
  return IsNamed(axis) ? Named(axis, cell, ruler)
                       : Numbered(axis, kNumbersApart, cell, ruler);
}

AxisLabels ColumnLabels(const FigureAxis& axis, int cell,
                        const TextRuler& ruler) {
  if (!IsNamed(axis)) {
    const int widest = Width(absl::StrCat(axis.begin + axis.count - 1),
                             metrics::kLabelSize, ruler);
    return Numbered(axis, widest + kLabelGap, cell, ruler);
  }
  AxisLabels labels = Named(axis, cell, ruler);
  labels.upward = labels.longest + kLabelGap > cell;
  return labels;
}

}  // namespace attn
