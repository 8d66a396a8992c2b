// The double overloads of row_math.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/tile/row_math.h"

namespace attn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<double>::max();

double Saturated(double value) {
  return std::clamp(value, -kLargest, kLargest);
}

}  // namespace

double RowMax(const double* row, int64_t count) {
  double max = -kInfinity;
  for (int64_t i = 0; i < count; ++i) {
    if (row[i] > max) max = row[i];
  }
  return max;
}

RowRange<double> ScanRow(const double* row, int64_t count) {
  RowRange<double> range;
  double min = kInfinity;
  double max = -kInfinity;
  for (int64_t i = 0; i < count; ++i) {
    if (row[i] == -kInfinity) continue;
    ++range.visible;
    range.has_nan = range.has_nan || std::isnan(row[i]);
    if (row[i] < min) min = row[i];
    if (row[i] > max) max = row[i];
  }
  if (max > -kInfinity) {
    range.min = min;
    range.max = max;
  }
  return range;
}

ExpSums ExpRow(double* row, int64_t count, double max) {
  ExpSums sums;
  for (int64_t i = 0; i < count; ++i) {
    const double distance = row[i] - max;
    row[i] = std::exp(distance);
    sums.sum += row[i];
    if (row[i] != 0) sums.weighted += row[i] * distance;
  }
  return sums;
}

void ScaleRow(double* row, int64_t count, double factor) {
  for (int64_t i = 0; i < count; ++i) row[i] *= factor;
}

void DivideRow(double* row, int64_t count, double divisor) {
  for (int64_t i = 0; i < count; ++i) {
    const double quotient = row[i] / divisor;
    row[i] = std::isfinite(row[i]) ? Saturated(quotient) : quotient;
  }
}

void AddRow(double* row, const double* other, int64_t count) {
  constexpr double kExcluded = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    if (row[i] == kExcluded || other[i] == kExcluded) {
      row[i] = kExcluded;
      continue;
    }
    const double sum = row[i] + other[i];
    const bool finite = std::isfinite(row[i]) && std::isfinite(other[i]);
    row[i] = finite ? Saturated(sum) : sum;
  }
}

void SoftcapRow(double* row, int64_t count, double cap) {
  for (int64_t i = 0; i < count; ++i) row[i] = cap * std::tanh(row[i] / cap);
}

void DistanceRow(double* row, int64_t count, int64_t start, double factor) {
  for (int64_t i = 0; i < count; ++i) {
    const double distance = std::abs(static_cast<double>(start - i));
    row[i] = Saturated(factor * distance);
  }
}

void ExcludeRow(double* row, const uint8_t* allowed, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (allowed[i] == 0) row[i] = -kInfinity;
  }
}

double Dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

int64_t FirstIndexOf(const double* row, int64_t count, double value) {
  const double* found = std::find(row, row + count, value);
  return found == row + count ? -1 : found - row;
}

int64_t CountNonFinite(const double* row, int64_t count) {
  return std::count_if(row, row + count,
                       [](double x) { return !std::isfinite(x); });
}

}  // namespace attn
