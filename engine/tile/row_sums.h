// Sums over the visible elements of rows of logits, in double whatever the row
// holds.
//
// As in row_math.h: -infinity marks what is excluded, NaN is visible; the float
// versions run on the widest vectors, the double ones are plain loops; bits
// depend on content and length, and on the machine's vectors. Thread-safe:
// pure.
#pragma once

#include <cstdint>

namespace attn {

// Of elements x around a centre: the sums of x - centre and of its square.
struct DeviationSums {
  double sum = 0;
  double squares = 0;
};

// sum of unit * logits[j]. `unit` is a power of two that keeps sums and squares
// of large doubles finite; sums of floats need none, and take 1.
double SumOf(const float* logits, int64_t count, double unit);
double SumOf(const double* logits, int64_t count, double unit);

// The same of unit * logits[j] - centre.
struct RowScale {
  double unit = 1;
  double centre = 0;
};
DeviationSums DeviationsOf(const float* logits, int64_t count, RowScale scale);
DeviationSums DeviationsOf(const double* logits, int64_t count, RowScale scale);

// sum of |weights[j]| * factors[j] over what is visible in `logits`.
double WeightedSumOf(const float* logits, const float* weights,
                     const double* factors, int64_t count);
double WeightedSumOf(const double* logits, const double* weights,
                     const double* factors, int64_t count);

// sum of row[j]^2, all elements being visible.
double SquaresOf(const float* row, int64_t count);

// norms[r] = sqrt(SquaresOf()) of `count` rows of `width` elements, `stride`
// elements apart.
void NormsOf(const float* rows, int64_t stride, int64_t width, int64_t count,
             float* norms);
void NormsOf(const float* rows, int64_t stride, int64_t width, int64_t count,
             double* norms);

}  // namespace attn
