#include "engine/kernels/row_describer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/normalizers/row_summary.h"
#include "engine/tile/row_sums.h"

namespace attn {
namespace {

// A power of two that brings numbers up to `largest` near 1, so that neither
// their sum nor their squares overflow or vanish. It changes no digit.
double UnitFor(double largest) {
  constexpr int kMaxExponent = 1000;
  if (largest == 0 || !std::isfinite(largest)) return 1;
  return std::ldexp(
      1.0, std::clamp(-std::ilogb(largest), -kMaxExponent, kMaxExponent));
}

// Unit of a row of floats, whose squares no double overflows on, and of
// doubles.
template <typename T>
double UnitOf(const RowStatistics& row) {
  if (sizeof(T) < sizeof(double)) return 1;
  return UnitFor(std::max(std::abs(row.logit_min), std::abs(row.logit_max)));
}

// The corrected two-pass algorithm (Chan, Golub and LeVeque 1983, eq. 1.7).
template <typename T>
void DescribeLogits(const T* logits, int64_t count, RowStatistics* row) {
  const double unit = UnitOf<T>(*row);
  const auto keys = static_cast<double>(row->visible_keys);
  const double mean = SumOf(logits, count, unit) / keys;
  const DeviationSums away = DeviationsOf(logits, count, {unit, mean});
  row->logit_mean = mean / unit;
  const double variance = (away.squares - away.sum * away.sum / keys) / keys;
  // A variance that rounding has made negative is 0; NaN stays.
  row->logit_std = (variance < 0 ? 0 : std::sqrt(variance)) / unit;
}

double Norm(const float* row, int64_t count) {
  return std::sqrt(SquaresOf(row, count));
}

double Norm(const double* row, int64_t count) {
  double largest = 0;
  for (int64_t c = 0; c < count; ++c) {
    largest = std::max(largest, std::abs(row[c]));
  }
  const double unit = UnitFor(largest);
  double squares = 0;
  for (int64_t c = 0; c < count; ++c) {
    squares += (row[c] * unit) * (row[c] * unit);
  }
  return std::sqrt(squares) / unit;
}

// What a weight program made of a row that sees a key.
template <typename T>
void DescribeAgain(const T* weights, int64_t count, const RowAt& at,
                   RowStatistics* row) {
  if (ScanRow(weights, count).has_nan) {
    row->entropy = std::numeric_limits<double>::quiet_NaN();
    row->peak_weight = row->entropy;
    row->top_key = -1;
  } else {
    DescribeWeights(weights, count, at, row);
  }
}

}  // namespace

template <typename T, typename N>
void ValueNorms(const HeadRows& values, int64_t key, int64_t count, T* scratch,
                N* norms) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (values.is_matrix()) {
      const ConstMatrix rows = values.MatrixFrom(key);
      return NormsOf(rows.data, rows.stride, values.width(), count, norms);
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    values.Load(key + i, 1, scratch);
    norms[i] = static_cast<N>(Norm(scratch, values.width()));
  }
}

template <typename T>
void RowDescriber::Describe(const DescribedTile<T>& tile,
                            RowStatistics* statistics) const {
  const TileBounds& bounds = tile.weights.bounds;
  for (int64_t r = 0; r < bounds.rows; ++r) {
    RowStatistics* row = statistics + r;
    if (row->visible_keys == 0) continue;
    if (again_) {
      const RowAt at{bounds.batch, bounds.head, bounds.row_begin + r,
                     bounds.key_begin};
      DescribeAgain(tile.weights.Row(r), bounds.keys, at, row);
    }
    if (!moments_) continue;
    DescribeLogits(tile.logits.Row(r), bounds.keys, row);
    row->contribution = WeightedSumOf(tile.logits.Row(r), tile.weights.Row(r),
                                      tile.norms, bounds.keys);
  }
}

template void ValueNorms(const HeadRows&, int64_t, int64_t, float*, float*);
template void ValueNorms(const HeadRows&, int64_t, int64_t, float*, double*);
template void ValueNorms(const HeadRows&, int64_t, int64_t, double*, double*);
template void RowDescriber::Describe(const DescribedTile<float>&,
                                     RowStatistics*) const;
template void RowDescriber::Describe(const DescribedTile<double>&,
                                     RowStatistics*) const;

}  // namespace attn
