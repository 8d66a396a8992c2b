#include "engine/core/head_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attn {
namespace {

constexpr double kCollapsedTopKeyShare = 0.99;
constexpr double kCollapsedEntropyRatio = 0.05;
constexpr double kUninformativeEntropyRatio = 0.999;
constexpr double kUninformativeLogitStd = 1e-3;

// Sums over the rows that see a key.
struct Sums {
  int64_t rows = 0;
  double entropy = 0;
  double entropy_ratio = 0;
  double effective_keys = 0;
  double contribution = 0;
  double peak_weight = 0;
  double visible_keys = 0;
  int64_t rows_with_choice = 0;
  // Whether there is a row without logits.
  bool no_logits = false;
};

void Add(const RowStatistics& row, Sums& sums, HeadStatistics& head) {
  const bool first = sums.rows++ == 0;
  sums.entropy += row.entropy;
  sums.effective_keys += EffectiveKeys(row);
  sums.contribution += row.contribution;
  sums.peak_weight += row.peak_weight;
  sums.visible_keys += static_cast<double>(row.visible_keys);
  sums.no_logits |= row.lse == -std::numeric_limits<double>::infinity();
  head.logit_min =
      first ? row.logit_min : std::min(head.logit_min, row.logit_min);
  head.logit_max =
      first ? row.logit_max : std::max(head.logit_max, row.logit_max);
  head.max_peak_weight = std::max(head.max_peak_weight, row.peak_weight);
  if (row.visible_keys < 2) return;
  ++sums.rows_with_choice;
  sums.entropy_ratio += EntropyRatio(row);
  if (row.peak_weight >= kSaturatedPeakWeight) ++head.saturated_rows;
}

// Mean and deviation of all logits from those of the rows: the mean by the
// number of keys, the square of the deviation as that within the rows and that
// between their means.
void CombineLogits(absl::Span<const RowStatistics> rows, double keys,
                   HeadStatistics& head) {
  double mean = 0;
  for (const RowStatistics& row : rows) {
    mean += row.logit_mean * (static_cast<double>(row.visible_keys) / keys);
  }
  head.logit_mean = mean;
  head.logit_std = std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(mean)) return;
  // Squares of what is divided by the largest do not overflow.
  double largest = 0;
  for (const RowStatistics& row : rows) {
    if (row.visible_keys == 0) continue;
    largest =
        std::max({largest, row.logit_std, std::abs(row.logit_mean - mean)});
  }
  double variance = 0;
  for (const RowStatistics& row : rows) {
    if (row.visible_keys == 0 || largest == 0) continue;
    const double within = row.logit_std / largest;
    const double between = (row.logit_mean - mean) / largest;
    variance += (within * within + between * between) *
                (static_cast<double>(row.visible_keys) / keys);
  }
  head.logit_std = largest * std::sqrt(variance);
}

// The most frequent key and how often it comes; the lowest on ties.
void CountTopKeys(std::vector<int64_t> keys, HeadStatistics& head) {
  std::sort(keys.begin(), keys.end());
  size_t longest = 0;
  for (size_t begin = 0, end = 0; begin < keys.size(); begin = end) {
    while (end < keys.size() && keys[end] == keys[begin]) ++end;
    if (end - begin > longest) {
      longest = end - begin;
      head.top_key = keys[begin];
    }
  }
  head.top_key_share =
      static_cast<double>(longest) / static_cast<double>(keys.size());
}

// SEMANTICS: a head that is collapsed, uninformative, or whose logits are
// constant.
void Judge(int64_t rows, HeadStatistics& head) {
  const std::string of_rows = absl::StrCat(" over ", rows, " rows");
  if (head.logit_min == head.logit_max) {
    head.dead = DeadHead::kConstantLogits;
    head.dead_reason = absl::StrFormat("every visible logit is %.6g%s",
                                       head.logit_min, of_rows);
  } else if (head.top_key >= 0 && head.top_key_share >= kCollapsedTopKeyShare &&
             head.mean_entropy_ratio < kCollapsedEntropyRatio) {
    head.dead = DeadHead::kCollapsed;
    head.dead_reason = absl::StrFormat(
        "key %d is the top key of %.1f %% of the rows, mean entropy ratio "
        "%.3g%s",
        head.top_key, 100 * head.top_key_share, head.mean_entropy_ratio,
        of_rows);
  } else if (head.mean_entropy_ratio >= kUninformativeEntropyRatio &&
             head.logit_std < kUninformativeLogitStd) {
    head.dead = DeadHead::kUninformative;
    head.dead_reason = absl::StrFormat(
        "mean entropy ratio %.6f, standard deviation of the logits %.3g%s",
        head.mean_entropy_ratio, head.logit_std, of_rows);
  }
}

}  // namespace

HeadStatistics Summarize(absl::Span<const RowStatistics> rows) {
  HeadStatistics head;
  head.rows = static_cast<int64_t>(rows.size());
  Sums sums;
  std::vector<int64_t> top_keys;
  top_keys.reserve(rows.size());
  for (const RowStatistics& row : rows) {
    if (row.visible_keys == 0) continue;
    top_keys.push_back(row.top_key);
    Add(row, sums, head);
  }
  head.empty_rows = head.rows - sums.rows;
  if (sums.rows == 0) return head;
  const auto count = static_cast<double>(sums.rows);
  head.mean_entropy = sums.entropy / count;
  head.mean_peak_weight = sums.peak_weight / count;
  head.mean_visible_keys = sums.visible_keys / count;
  head.mean_effective_keys = sums.effective_keys / count;
  head.mean_contribution = sums.contribution / count;
  CombineLogits(rows, sums.visible_keys, head);
  CountTopKeys(std::move(top_keys), head);
  if (sums.rows_with_choice == 0) return head;
  const auto with_choice = static_cast<double>(sums.rows_with_choice);
  head.mean_entropy_ratio = sums.entropy_ratio / with_choice;
  head.saturated_share = static_cast<double>(head.saturated_rows) / with_choice;
  if (!sums.no_logits && sums.rows >= kFewestJudgedRows) {
    Judge(sums.rows, head);
  }
  return head;
}

}  // namespace attn
