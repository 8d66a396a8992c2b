// Maths on rows of scores: what stages and kernels do element by element.
//
// The float versions run on the widest vectors of this machine, chosen once at
// run time; the double versions are plain loops for the reference kernel.
// Bits depend on the row's content and length (and on the machine's vectors),
// never on its alignment. Every function takes count = 0. Thread-safe: pure.
#pragma once

#include <cstdint>
#include <string>

namespace attn {

// Extent of a row's visible elements. -infinity marks an excluded key and is
// not counted; NaN is counted but never the largest or smallest.
template <typename T>
struct RowRange {
  T min = 0;  // 0 if nothing is visible but NaN
  T max = 0;
  int64_t visible = 0;
  bool has_nan = false;
};

// What a softmax needs of a row x with d = x - max: the sums of exp(d) and of
// exp(d) * d. Where exp(d) vanishes so does the product, d = -infinity too.
struct ExpSums {
  double sum = 0;
  double weighted = 0;
};

// Largest element; NaN is passed over. -infinity for an empty row.
float RowMax(const float* row, int64_t count);
double RowMax(const double* row, int64_t count);

RowRange<float> ScanRow(const float* row, int64_t count);
RowRange<double> ScanRow(const double* row, int64_t count);

// row[i] = exp(row[i] - max). `max` is finite and no element exceeds it. Float:
// within 2 ulp; results below the smallest normal number are 0.
ExpSums ExpRow(float* row, int64_t count, float max);
ExpSums ExpRow(double* row, int64_t count, double max);

// row[i] *= factor
void ScaleRow(float* row, int64_t count, float factor);
void ScaleRow(double* row, int64_t count, double factor);

// row[i] /= divisor. A finite element stays finite: it saturates at the largest
// number, so that only what came as -infinity is excluded.
void DivideRow(float* row, int64_t count, float divisor);
void DivideRow(double* row, int64_t count, double divisor);

// row[i] += other[i]. The sum of finite elements saturates as above. -infinity
// on either side excludes, whatever stands on the other: NaN too.
void AddRow(float* row, const float* other, int64_t count);
void AddRow(double* row, const double* other, int64_t count);

// row[i] = cap * tanh(row[i] / cap), cap > 0.
void SoftcapRow(float* row, int64_t count, float cap);
void SoftcapRow(double* row, int64_t count, double cap);

// row[i] = factor * |start - i|, saturated as above; `factor` is finite.
void DistanceRow(float* row, int64_t count, int64_t start, float factor);
void DistanceRow(double* row, int64_t count, int64_t start, double factor);

// row[i] = -infinity where allowed[i] is 0.
void ExcludeRow(float* row, const uint8_t* allowed, int64_t count);
void ExcludeRow(double* row, const uint8_t* allowed, int64_t count);

// sum of a[i] * b[i]
float Dot(const float* a, const float* b, int64_t count);
double Dot(const double* a, const double* b, int64_t count);

// Index of the first element equal to `value`; -1 if there is none.
int64_t FirstIndexOf(const float* row, int64_t count, float value);
int64_t FirstIndexOf(const double* row, int64_t count, double value);

// Index of the first largest element, NaN passed over; -1 if every element is
// NaN or the row is empty.
template <typename T>
int64_t FirstMaxIndex(const T* row, int64_t count) {
  return FirstIndexOf(row, count, RowMax(row, count));
}

// How many elements are infinite or NaN.
int64_t CountNonFinite(const float* row, int64_t count);
int64_t CountNonFinite(const double* row, int64_t count);

// The vectors in use, e.g. "AVX2"; what IsaName() of the engine's door says.
std::string RowMathIsa();

}  // namespace attn
