// Medians of rounds.
#pragma once

#include <vector>

namespace attn {

// 0 for no values.
double Median(std::vector<double> values);

// The median of a[i] / b[i]: what was slow in a round was slow for both.
double MedianRatio(const std::vector<double>& a, const std::vector<double>& b);
// The median of a[i] - b[i], likewise.
double MedianDifference(const std::vector<double>& a,
                        const std::vector<double>& b);

}  // namespace attn
