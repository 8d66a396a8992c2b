#include "server/rpc/head_health.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace attn {
namespace {

// Mean entropy ratios between these are far from those of any dead head but one
// of constant logits.
constexpr double kSurelyMixing = 0.1;
constexpr double kSurelyChoosing = 0.99;

// False: the head is surely not dead, whatever rows are left.
bool MayBeDead(absl::Span<const RowStatistics> rows) {
  const auto count = static_cast<double>(rows.size());
  double ratios = 0;
  double rests = 0;
  bool is_constant = true;
  const RowStatistics* first = nullptr;
  for (const RowStatistics& row : rows) {
    if (row.visible_keys == 0) continue;
    if (!HasLogits(row)) return false;
    if (first == nullptr) first = &row;
    is_constant = is_constant && row.logit_min == first->logit_min &&
                  row.logit_max == first->logit_min;
    if (row.visible_keys < 2) continue;
    const double ratio = EntropyRatio(row);
    ratios += ratio;
    rests += 1 - ratio;
    if (!is_constant && ratios > kSurelyMixing * count &&
        rests > (1 - kSurelyChoosing) * count) {
      return false;
    }
  }
  return true;
}

// The rows with the largest deviation that logits of their range may have.
std::vector<RowStatistics> WithLargestDeviation(
    absl::Span<const RowStatistics> rows) {
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (const RowStatistics& row : rows) {
    if (row.visible_keys == 0) continue;
    least = std::min(least, row.logit_min);
    most = std::max(most, row.logit_max);
  }
  std::vector<RowStatistics> bounded(rows.begin(), rows.end());
  for (RowStatistics& row : bounded) {
    row.logit_mean = 0;
    row.logit_std = (most - least) / 2;
  }
  return bounded;
}

}  // namespace

DeadHeadCounts CountDeadHeads(absl::Span<const RowStatistics> rows,
                              int64_t length, bool has_statistics) {
  DeadHeadCounts counts{};
  if (length < kFewestJudgedRows) return counts;
  const auto step = static_cast<size_t>(length);
  for (size_t begin = 0; begin + step <= rows.size(); begin += step) {
    const absl::Span<const RowStatistics> head = rows.subspan(begin, step);
    if (!MayBeDead(head)) continue;
    const HeadStatistics summary = has_statistics
                                       ? Summarize(head)
                                       : Summarize(WithLargestDeviation(head));
    ++counts[static_cast<size_t>(summary.dead)];
  }
  return counts;
}

}  // namespace attn
