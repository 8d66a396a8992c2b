#include "client/draw/panel_grid.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/draw/figure_metrics.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

namespace metrics = figure_metrics;

constexpr int kLeastFigure = metrics::kLeastWidth;
// A PNG of this size still opens in common viewers.
constexpr int kLargestFigure = 16384;

int64_t CeilDiv(int64_t x, int64_t y) { return (x + y - 1) / y; }

// Pixels for one panel, if so many groups stand in a row.
struct Room {
  int64_t width = 0;
  int64_t height = 0;
};

Room RoomOf(int group_columns, int groups, int panels, int max_size) {
  const int64_t rows = CeilDiv(groups, group_columns);
  const int64_t gaps =
      int64_t{group_columns - 1} * metrics::kGroupGap +
      int64_t{group_columns} * (panels - 1) * metrics::kPanelGap;
  const int64_t besides =
      rows * metrics::kGroupHead + (rows - 1) * metrics::kRowGap;
  return {(max_size - metrics::WidthBesides(panels) - gaps) /
              (int64_t{group_columns} * panels),
          (max_size - metrics::kHeightBesides - besides) / rows};
}

// Whether the titles fit, and a cell.
bool IsEnough(const Room& room, const FigureSize& size) {
  return room.width >= std::max(metrics::kLeastPlace, size.cell_size) &&
         room.height >= std::max(metrics::kLeastPanel, size.cell_size);
}

// How large a cell could be, in pixels and parts of them.
double CellIn(const Room& room, int64_t queries, int64_t keys) {
  return std::min(
      static_cast<double>(room.width) / static_cast<double>(keys),
      static_cast<double>(room.height) / static_cast<double>(queries));
}

// Cells of one axis: how many elements each holds, and its pixels.
struct AxisCells {
  int64_t step = 1;
  int64_t pixels = 1;
};

AxisCells Divide(int64_t elements, int64_t room, int cell_size) {
  AxisCells cells;
  const int64_t least = std::max(cell_size, 1);
  cells.step = CeilDiv(elements, std::max<int64_t>(room / least, 1));
  cells.pixels = cell_size > 0
                     ? cell_size
                     : std::clamp<int64_t>(room / CeilDiv(elements, cells.step),
                                           1, metrics::kLargestCell);
  return cells;
}

// Few cells get longer sides, where a panel would be a mere line.
int64_t Stretched(int64_t pixels, int64_t cells, int64_t least, int64_t room) {
  return std::max(pixels, std::min(CeilDiv(least, cells), room / cells));
}

absl::Status Check(const FigureSize& size) {
  if (size.max_size < kLeastFigure || size.max_size > kLargestFigure) {
    return FieldError(
        "--max-size", absl::StrCat(size.max_size),
        absl::StrCat(kLeastFigure, " to ", kLargestFigure, " pixels"));
  }
  if (size.cell_size < 0 || size.cell_size > size.max_size) {
    return FieldError("--cell-size", absl::StrCat(size.cell_size),
                      "1 pixel or more and less than --max-size");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PanelGrid> ChoosePanelGrid(int groups, int panels,
                                          int64_t queries, int64_t keys,
                                          const FigureSize& size) {
  if (absl::Status status = Check(size); !status.ok()) return status;
  PanelGrid grid;
  Room room;
  double best = 0;
  for (int columns = 1; columns <= groups; ++columns) {
    const Room each = RoomOf(columns, groups, panels, size.max_size);
    const double cell = CellIn(each, queries, keys);
    // A little better is not worth a ragged last row.
    if (!IsEnough(each, size) || cell <= best * 1.02) continue;
    best = cell;
    room = each;
    grid.group_columns = columns;
  }
  if (best == 0) {
    return FieldError("--max-size", absl::StrCat(size.max_size),
                      absl::StrCat("more pixels for ", groups * panels,
                                   " panels, or fewer --heads"));
  }
  grid.group_rows = static_cast<int>(CeilDiv(groups, grid.group_columns));
  AxisCells rows = Divide(queries, room.height, size.cell_size);
  AxisCells columns = Divide(keys, room.width, size.cell_size);
  // Cells that hold as many queries as keys keep diagonals at 45 degrees.
  if (std::max(queries, keys) <= 2 * std::min(queries, keys)) {
    const int64_t step = std::max(rows.step, columns.step);
    rows.step = step;
    columns.step = step;
  }
  grid.query_step = rows.step;
  grid.key_step = columns.step;
  if (size.cell_size > 0) {
    grid.cell_width = size.cell_size;
    grid.cell_height = size.cell_size;
    return grid;
  }
  const int64_t side = std::min(rows.pixels, columns.pixels);
  grid.cell_width = static_cast<int>(Stretched(
      side, CeilDiv(keys, columns.step), metrics::kLeastPlace, room.width));
  grid.cell_height = static_cast<int>(Stretched(
      side, CeilDiv(queries, rows.step), metrics::kLeastPanel, room.height));
  return grid;
}

}  // namespace attn
