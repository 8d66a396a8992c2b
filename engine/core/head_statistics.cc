#include "engine/core/head_statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace attn {
namespace {

// Sums over the rows that see a key.
struct Sums {
  double entropy = 0;
  double entropy_ratio = 0;
  int64_t rows_with_choice = 0;
  double peak_weight = 0;
  double visible_keys = 0;
};

void Add(const RowStatistics& row, Sums& sums, HeadStatistics& head) {
  sums.entropy += row.entropy;
  sums.peak_weight += row.peak_weight;
  sums.visible_keys += static_cast<double>(row.visible_keys);
  head.max_peak_weight = std::max(head.max_peak_weight, row.peak_weight);
  if (row.visible_keys < 2) return;
  ++sums.rows_with_choice;
  sums.entropy_ratio +=
      row.entropy / std::log(static_cast<double>(row.visible_keys));
  if (row.peak_weight >= kSaturatedPeakWeight) ++head.saturated_rows;
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

}  // namespace

HeadStatistics Summarize(absl::Span<const RowStatistics> rows) {
  HeadStatistics head;
  head.rows = static_cast<int64_t>(rows.size());
  Sums sums;
  std::vector<int64_t> top_keys;
  top_keys.reserve(rows.size());
  for (const RowStatistics& row : rows) {
    if (row.visible_keys == 0) {
      ++head.empty_rows;
      continue;
    }
    const bool first = top_keys.empty();
    head.logit_min =
        first ? row.logit_min : std::min(head.logit_min, row.logit_min);
    head.logit_max =
        first ? row.logit_max : std::max(head.logit_max, row.logit_max);
    top_keys.push_back(row.top_key);
    Add(row, sums, head);
  }
  if (top_keys.empty()) return head;
  const auto count = static_cast<double>(top_keys.size());
  head.mean_entropy = sums.entropy / count;
  head.mean_peak_weight = sums.peak_weight / count;
  head.mean_visible_keys = sums.visible_keys / count;
  if (sums.rows_with_choice > 0) {
    head.mean_entropy_ratio =
        sums.entropy_ratio / static_cast<double>(sums.rows_with_choice);
  }
  CountTopKeys(std::move(top_keys), head);
  return head;
}

}  // namespace attn
