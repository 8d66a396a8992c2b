// Summary of one head's rows.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "engine/core/row_statistics.h"

namespace attn {

// A row is saturated from this peak weight on, if it sees two keys or more.
inline constexpr double kSaturatedPeakWeight = 0.99;
// A head is saturated from this share of saturated rows on.
inline constexpr double kSaturatedHeadShare = 0.9;

// Of fewer rows that see a key, e.g. those of a step of decoding, no verdict is
// given: one peaked row is not yet a head that never moves.
inline constexpr int64_t kFewestJudgedRows = 8;

// Why a head tells nothing of its input.
enum class DeadHead : uint8_t {
  kNo = 0,
  // >= 99 % of the rows have one top key, mean entropy ratio < 0.05.
  kCollapsed = 1,
  // Mean entropy ratio >= 0.999, standard deviation of the logits < 1e-3.
  kUninformative = 2,
  // Every visible logit is the same.
  kConstantLogits = 3,
};

// Means are over the rows that see a key.
struct HeadStatistics {
  int64_t rows = 0;
  int64_t empty_rows = 0;
  double mean_entropy = 0;
  // Mean of EntropyRatio() over rows that see two keys or more.
  double mean_entropy_ratio = 0;
  double mean_peak_weight = 0;
  double max_peak_weight = 0;
  double mean_visible_keys = 0;
  double mean_effective_keys = 0;
  double mean_contribution = 0;
  // Most frequent top key (lowest on ties; -1 if all rows are empty) and the
  // share of the non-empty rows that have it.
  int64_t top_key = -1;
  double top_key_share = 0;
  int64_t saturated_rows = 0;
  // Of the rows that see two keys or more.
  double saturated_share = 0;
  // Over every visible logit of the head, whatever row it is in.
  double logit_min = 0;
  double logit_max = 0;
  double logit_mean = 0;
  double logit_std = 0;
  // The first that holds of constant, collapsed and uninformative. A head none
  // of whose rows sees two keys has no choice, and no verdict; nor has one of
  // fewer than kFewestJudgedRows rows.
  DeadHead dead = DeadHead::kNo;
  // The evidence in words; empty if the head is not dead.
  std::string dead_reason;
};

// Summarises the rows of one head, which were computed with
// OutputSelection::statistics. The order of rows does not matter but for
// rounding; rows are added in the order given.
HeadStatistics Summarize(absl::Span<const RowStatistics> rows);

}  // namespace attn
