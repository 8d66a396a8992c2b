// Which rows of a finished call the metrics look at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/core/row_statistics.h"
#include "server/metrics/metrics.h"

namespace attn {

// A part of what is there, the same distance apart, with another beginning in
// each turn: rows that one call leaves out come in later ones.
struct RowSampling {
  // Share of the rows, 0 to 1.
  double rate = 0;
  // Counts calls.
  uint64_t turn = 0;
};

// A call's sampled rows, at least one and at most 32, but for those that tell
// nothing: that see fewer than two keys, have no logits, or are not finite.
std::vector<ObservedRow> SampleRows(absl::Span<const RowStatistics> rows,
                                    const RowSampling& sampling);

// The same of each head of rows [B, heads, length], at least one row and at
// most 8 of each over all batch entries.
std::vector<ObservedHead> SampleHeads(absl::Span<const RowStatistics> rows,
                                      int64_t heads, int64_t length,
                                      const RowSampling& sampling);

}  // namespace attn
