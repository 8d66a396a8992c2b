// Compiled once for each instruction set, as row_math.cc.
#include "engine/tile/row_sums.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/row_sums.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// As many floats as D has lanes.
HWY_INLINE V LoadWide(const float* from) {
  const D d;
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), from));
}

// Calls op(wide elements, index) for whole vectors and rest(element, index) for
// what is left.
template <class Op, class Rest>
HWY_INLINE void ForEachWide(const float* row, size_t count, Op op, Rest rest) {
  const size_t lanes = hn::Lanes(D());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) op(LoadWide(row + i), i);
  for (; i < count; ++i) rest(static_cast<double>(row[i]), i);
}

HWY_INLINE double Total(V sums) {
  return hn::GetLane(hn::SumOfLanes(D(), sums));
}

double SumVisible(const float* logits, size_t count) {
  const D d;
  const V excluded = hn::Set(d, -std::numeric_limits<double>::infinity());
  V sums = hn::Zero(d);
  double rest = 0;
  ForEachWide(
      logits, count,
      [&](V x, size_t) HWY_ATTR {
        sums = hn::Add(sums, hn::IfThenZeroElse(hn::Eq(x, excluded), x));
      },
      [&](double x, size_t) {
        if (x != -std::numeric_limits<double>::infinity()) rest += x;
      });
  return Total(sums) + rest;
}

DeviationSums SumDeviations(const float* logits, size_t count, double centre) {
  const D d;
  const V excluded = hn::Set(d, -std::numeric_limits<double>::infinity());
  const V middle = hn::Set(d, centre);
  V sums = hn::Zero(d);
  V squares = hn::Zero(d);
  DeviationSums rest;
  ForEachWide(
      logits, count,
      [&](V x, size_t) HWY_ATTR {
        const V away =
            hn::IfThenZeroElse(hn::Eq(x, excluded), hn::Sub(x, middle));
        sums = hn::Add(sums, away);
        squares = hn::Add(squares, hn::Mul(away, away));
      },
      [&](double x, size_t) {
        if (x == -std::numeric_limits<double>::infinity()) return;
        rest.sum += x - centre;
        rest.squares += (x - centre) * (x - centre);
      });
  return {Total(sums) + rest.sum, Total(squares) + rest.squares};
}

double SumWeighted(const float* logits, const float* weights,
                   const double* factors, size_t count) {
  const D d;
  const V excluded = hn::Set(d, -std::numeric_limits<double>::infinity());
  V sums = hn::Zero(d);
  double rest = 0;
  ForEachWide(
      logits, count,
      [&](V x, size_t i) HWY_ATTR {
        const V weight = hn::Abs(LoadWide(weights + i));
        const V term = hn::Mul(weight, hn::LoadU(d, factors + i));
        sums = hn::Add(sums, hn::IfThenZeroElse(hn::Eq(x, excluded), term));
      },
      [&](double x, size_t i) {
        if (x == -std::numeric_limits<double>::infinity()) return;
        rest += std::abs(static_cast<double>(weights[i])) * factors[i];
      });
  return Total(sums) + rest;
}

double SumSquares(const float* row, size_t count) {
  const D d;
  V sums = hn::Zero(d);
  double rest = 0;
  ForEachWide(
      row, count,
      [&](V x, size_t) HWY_ATTR { sums = hn::Add(sums, hn::Mul(x, x)); },
      [&](double x, size_t) { rest += x * x; });
  return Total(sums) + rest;
}

template <typename N>
HWY_INLINE void FillNorms(const float* rows, size_t stride, size_t width,
                          size_t count, N* norms) {
  for (size_t r = 0; r < count; ++r) {
    norms[r] = static_cast<N>(std::sqrt(SumSquares(rows + r * stride, width)));
  }
}

void FloatNorms(const float* rows, size_t stride, size_t width, size_t count,
                float* norms) {
  FillNorms(rows, stride, width, count, norms);
}

void DoubleNorms(const float* rows, size_t stride, size_t width, size_t count,
                 double* norms) {
  FillNorms(rows, stride, width, count, norms);
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(SumVisible);
HWY_EXPORT(SumDeviations);
HWY_EXPORT(SumWeighted);
HWY_EXPORT(SumSquares);
HWY_EXPORT(FloatNorms);
HWY_EXPORT(DoubleNorms);

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

size_t Size(int64_t count) { return static_cast<size_t>(count); }

}  // namespace

double SumOf(const float* logits, int64_t count, double /*unit*/) {
  return HWY_DYNAMIC_DISPATCH(SumVisible)(logits, Size(count));
}

double SumOf(const double* logits, int64_t count, double unit) {
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    if (logits[j] != kExcluded) sum += logits[j] * unit;
  }
  return sum;
}

DeviationSums DeviationsOf(const float* logits, int64_t count, RowScale scale) {
  return HWY_DYNAMIC_DISPATCH(SumDeviations)(logits, Size(count), scale.centre);
}

DeviationSums DeviationsOf(const double* logits, int64_t count,
                           RowScale scale) {
  DeviationSums sums;
  for (int64_t j = 0; j < count; ++j) {
    if (logits[j] == kExcluded) continue;
    const double away = logits[j] * scale.unit - scale.centre;
    sums.sum += away;
    sums.squares += away * away;
  }
  return sums;
}

double WeightedSumOf(const float* logits, const float* weights,
                     const double* factors, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SumWeighted)(logits, weights, factors,
                                           Size(count));
}

double WeightedSumOf(const double* logits, const double* weights,
                     const double* factors, int64_t count) {
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    if (logits[j] != kExcluded) sum += std::abs(weights[j]) * factors[j];
  }
  return sum;
}

double SquaresOf(const float* row, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SumSquares)(row, Size(count));
}

void NormsOf(const float* rows, int64_t stride, int64_t width, int64_t count,
             float* norms) {
  HWY_DYNAMIC_DISPATCH(FloatNorms)
  (rows, Size(stride), Size(width), Size(count), norms);
}

void NormsOf(const float* rows, int64_t stride, int64_t width, int64_t count,
             double* norms) {
  HWY_DYNAMIC_DISPATCH(DoubleNorms)
  (rows, Size(stride), Size(width), Size(count), norms);
}

}  // namespace attn
#endif  // HWY_ONCE
