// Which heads of a finished call are dead.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "engine/core/head_statistics.h"
#include "engine/core/row_statistics.h"

namespace attn {

// False of a row of linear attention, which has neither logits nor weights to
// tell of, and of one whose logits are all -infinity.
inline bool HasLogits(const RowStatistics& row) {
  return row.lse != -std::numeric_limits<double>::infinity();
}

// How many heads there are of each verdict, by DeadHead; of kNo only those that
// all their rows were needed for.
using DeadHeadCounts = std::array<int64_t, 4>;

// Counts the heads of rows [B, Hq, length] by the verdicts of Summarize().
// Most heads that are not dead are told by a few of their rows. Without
// `has_statistics` the rows have no deviation of their logits: then a head is
// uninformative only if half the range of its logits, which the deviation
// cannot exceed, is below the bound.
DeadHeadCounts CountDeadHeads(absl::Span<const RowStatistics> rows,
                              int64_t length, bool has_statistics);

}  // namespace attn
