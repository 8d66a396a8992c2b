// Summary of one head's rows.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "engine/core/row_statistics.h"

namespace attn {

// A row is saturated from this peak weight on, if it sees two keys or more.
inline constexpr double kSaturatedPeakWeight = 0.99;

// Means are over the rows that see a key.
struct HeadStatistics {
  int64_t rows = 0;
  int64_t empty_rows = 0;
  double mean_entropy = 0;
  // Mean of entropy / ln(visible keys) over rows that see two keys or more.
  double mean_entropy_ratio = 0;
  double mean_peak_weight = 0;
  double max_peak_weight = 0;
  double mean_visible_keys = 0;
  // Most frequent top key (lowest on ties; -1 if all rows are empty) and the
  // share of the non-empty rows that have it.
  int64_t top_key = -1;
  double top_key_share = 0;
  int64_t saturated_rows = 0;
  double logit_min = 0;
  double logit_max = 0;
};

// Summarises the rows of one head. The order of rows does not matter but for
// rounding; rows are added in the order given.
HeadStatistics Summarize(absl::Span<const RowStatistics> rows);

}  // namespace attn
