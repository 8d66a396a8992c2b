#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/testing/variants/formulas.h"

namespace attn::oracle {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();
constexpr double kFar = std::numeric_limits<double>::infinity();

// The visible keys, the largest logit first, the lowest index on ties.
std::vector<size_t> Ranked(const Row& row) {
  std::vector<size_t> keys;
  for (size_t j = 0; j < row.size(); ++j) {
    if (row[j] != kExcluded) keys.push_back(j);
  }
  std::stable_sort(keys.begin(), keys.end(),
                   [&row](size_t a, size_t b) { return row[a] > row[b]; });
  return keys;
}

// Keeps the first `count` of the ranked keys; the margin is the gap to the
// next.
double KeepFirst(const std::vector<size_t>& ranked, size_t count, Row& row) {
  if (count >= ranked.size()) return kFar;
  const double margin =
      count == 0 ? 0 : row[ranked[count - 1]] - row[ranked[count]];
  for (size_t i = count; i < ranked.size(); ++i) row[ranked[i]] = kExcluded;
  return margin;
}

double DropTopK(const TopKSparsifier& top, Row& row) {
  const std::vector<size_t> ranked = Ranked(row);
  auto count = static_cast<size_t>(top.k);
  if (top.ties == TieRule::kKeepAll) {
    while (count < ranked.size() &&
           row[ranked[count]] == row[ranked[count - 1]]) {
      ++count;
    }
  }
  return KeepFirst(ranked, count, row);
}

double DropBelow(const ThresholdSparsifier& threshold, Row& row) {
  const double max = *std::max_element(row.begin(), row.end());
  double margin = kFar;
  for (double& x : row) {
    if (x == kExcluded) continue;
    bool kept = true;
    if (threshold.min_logit) {
      margin = std::min(margin, std::abs(x - *threshold.min_logit));
      kept = kept && x >= *threshold.min_logit;
    }
    if (threshold.below_max) {
      const double bound = max - *threshold.below_max;
      margin = std::min(margin, std::abs(x - bound));
      kept = kept && x >= bound;
    }
    if (!kept) x = kExcluded;
  }
  return margin;
}

double DropTopP(const TopPSparsifier& top, Row& row) {
  const std::vector<size_t> ranked = Ranked(row);
  if (ranked.empty()) return kFar;
  double total = 0;
  for (const size_t j : ranked) total += std::exp(row[j] - row[ranked[0]]);
  double sum = 0;
  size_t count = 0;
  double margin = kFar;
  while (count < ranked.size() && sum < top.p * total) {
    sum += std::exp(row[ranked[count++]] - row[ranked[0]]);
    margin = std::min(margin, std::abs(sum / total - top.p));
  }
  return std::min(margin, KeepFirst(ranked, count, row));
}

}  // namespace

double Sparsify(const SparsifierSpec& spec, Row& row) {
  if (row.empty()) return kFar;
  return std::visit(
      Overloaded{
          [&row](const TopKSparsifier& top) { return DropTopK(top, row); },
          [&row](const ThresholdSparsifier& threshold) {
            return DropBelow(threshold, row);
          },
          [&row](const TopPSparsifier& top) { return DropTopP(top, row); }},
      spec);
}

}  // namespace attn::oracle
