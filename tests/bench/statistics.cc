#include "tests/bench/statistics.h"

#include <algorithm>
#include <cstddef>

namespace attn {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

double MedianRatio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    ratios.push_back(a[i] / b[i]);
  }
  return Median(std::move(ratios));
}

double MedianDifference(const std::vector<double>& a,
                        const std::vector<double>& b) {
  std::vector<double> differences;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    differences.push_back(a[i] - b[i]);
  }
  return Median(std::move(differences));
}

}  // namespace attn
