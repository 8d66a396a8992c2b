// A matrix as text: one glyph for each cell.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace attn {

// A [rows, columns] matrix in row-major order. A cell that is not visible is
// drawn as "·", which no value looks like.
struct HeatMapPanel {
  std::string title;
  absl::Span<const double> values;
  // As many as values; false: masked.
  const std::vector<bool>* visible = nullptr;
};

struct HeatMapOptions {
  // Terminal escape sequences.
  bool colour = false;
  // Rows and columns beyond are left out, and said to be.
  size_t max_rows = 64;
  size_t max_columns = 64;
};

// Panels side by side over the same rows and columns. Each panel has its own
// scale from its least to its greatest visible value, which its legend gives.
// `row_labels` and `column_labels` give the sizes.
std::string RenderHeatMap(const std::vector<HeatMapPanel>& panels,
                          const std::vector<std::string>& row_labels,
                          const std::vector<std::string>& column_labels,
                          const HeatMapOptions& options = {});

}  // namespace attn
