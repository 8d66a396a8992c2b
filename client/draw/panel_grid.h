// How many panels stand in a row, how large a cell is, and how many queries and
// keys it holds, so that a figure keeps within its size.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace attn {

struct FigureSize {
  // Of the longer side, in pixels.
  int max_size = 1600;
  // Pixels of a cell's sides; 0: as large as fits.
  int cell_size = 0;
};

struct PanelGrid {
  int group_columns = 1;
  int group_rows = 1;
  int cell_width = 1;
  int cell_height = 1;
  // Queries and keys of a cell; more than 1 where there are more than pixels.
  int64_t query_step = 1;
  int64_t key_step = 1;
};

// For `groups` of `panels` panels of queries x keys elements, all > 0.
// INVALID_ARGUMENT names "--max-size" or "--cell-size" if they are out of range
// or too small for so many panels.
absl::StatusOr<PanelGrid> ChoosePanelGrid(int groups, int panels,
                                          int64_t queries, int64_t keys,
                                          const FigureSize& size);

}  // namespace attn
