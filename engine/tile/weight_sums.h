// Sums over rows that the statistics of every normalizer need.
//
// The float versions run on the widest vectors of this machine, the double ones
// are plain loops. Bits depend on content and length, and on the machine's
// vectors. Thread-safe: pure.
#pragma once

#include <cstdint>

namespace attn {

// sum of exp(row[j] - max). `max` is finite and no element exceeds it;
// -infinity adds nothing. Float: each term within 2 ulp.
double SumExp(const float* row, int64_t count, float max);
double SumExp(const double* row, int64_t count, double max);

// Of weights w: the sums of |w| and of |w| ln |w|, which is 0 where w is 0, and
// the largest w, 0 if none is above it. No weight is NaN.
template <typename T>
struct WeightSums {
  double sum = 0;
  double weighted = 0;
  T max = 0;
};
WeightSums<float> SumWeights(const float* weights, int64_t count);
WeightSums<double> SumWeights(const double* weights, int64_t count);

}  // namespace attn
