// Sums over the exponentials of a row together with the moments of its
// elements: compiled once for each instruction set. Include after
// hwy/highway.h.

// The guard that lets foreach_target.h include this once for each target.
#if defined(ATTN_ENGINE_TILE_ROW_MOMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTN_ENGINE_TILE_ROW_MOMENTS_INL_H
#undef ATTN_ENGINE_TILE_ROW_MOMENTS_INL_H
#else
#define ATTN_ENGINE_TILE_ROW_MOMENTS_INL_H
#endif

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "engine/tile/online_rows.h"
#include "engine/tile/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// exp(x) for x <= 0 or NaN, and x raised to a finite number where exp(x) is 0,
// so that the product of the two is 0 then. What a softmax needs of it: an
// error of 2 ulp of the row's largest, 1, rather than of every result.
HWY_INLINE ExpPair<V> ExpOf(V x) {
  const D d;
#if HWY_TARGET <= HWY_AVX3 && HWY_TARGET != HWY_SCALAR
  // With x log2(e) = n + r, 2^n times a polynomial, minimax for the relative
  // error on |r| <= 1/2, which is below 3e-9. Max() of this order keeps NaN.
  x = hn::Max(hn::Set(d, -110.0F), x);
  const V y = hn::Mul(x, hn::Set(d, 1.44269504088896341F));
  // To the nearest whole number, no exceptions.
  const V r = V{_mm512_reduce_ps(y.raw, 0x08)};
  V p = hn::Set(d, 1.559487919e-4F);
  p = hn::MulAdd(p, r, hn::Set(d, 1.340672051e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 9.617692057e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 5.550310341e-2F));
  p = hn::MulAdd(p, r, hn::Set(d, 2.402265279e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 6.931472152e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  return {V{_mm512_scalef_ps(p.raw, hn::Sub(y, r).raw)}, x};
#else
  return ExpPairOf(d, x);
#endif
}

HWY_INLINE double Total(V sums) {
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), sums)));
}

// What the moments of a tile's row take.
struct MomentSource {
  float max = 0;
  float centre = 0;
  const float* norms = nullptr;
};

// Sums of exp(x - max), of that times x - max, of x - centre, of its square and
// of exp(x - max) * norm, lane by lane.
struct MomentLanes {
  float* sum;
  float* weighted;
  float* deviation;
  float* squares;
  float* contribution;
};

// row = exp(row - max); kMixed: some elements are -infinity.
template <bool kMixed>
void ExponentiateAndSum(float* row, size_t count, const MomentSource& source,
                        const MomentLanes& sums) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V pivot = hn::Set(d, source.max);
  const V centre = hn::Set(d, source.centre);
  const V excluded = hn::Set(d, -kInfinity);
  V sum = hn::Zero(d);
  V weighted = hn::Zero(d);
  V deviation = hn::Zero(d);
  V squares = hn::Zero(d);
  V contribution = hn::Zero(d);
  const auto exp = [&](V x, V norm, auto is_mixed) HWY_ATTR {
    const ExpPair<V> pair = ExpOf(hn::Sub(x, pivot));
    sum = hn::Add(sum, pair.exp);
    weighted = hn::MulAdd(pair.exp, pair.x, weighted);
    V away = hn::Sub(x, centre);
    if constexpr (is_mixed) {
      const auto is_excluded = hn::Eq(x, excluded);
      away = hn::IfThenZeroElse(is_excluded, away);
      norm = hn::IfThenZeroElse(is_excluded, norm);
    }
    deviation = hn::Add(deviation, away);
    squares = hn::MulAdd(away, away, squares);
    contribution = hn::MulAdd(pair.exp, norm, contribution);
    return pair.exp;
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V norm = hn::LoadU(d, source.norms + i);
    const V x = hn::LoadU(d, row + i);
    hn::StoreU(exp(x, norm, std::bool_constant<kMixed>()), d, row + i);
  }
  if (i < count) {
    const V norm = LoadTail(d, source.norms + i, count - i, 0.0F);
    const V x = LoadTail(d, row + i, count - i, -kInfinity);
    StoreTail(exp(x, norm, std::true_type()), d, row + i, count - i);
  }
  hn::Store(sum, d, sums.sum);
  hn::Store(weighted, d, sums.weighted);
  hn::Store(deviation, d, sums.deviation);
  hn::Store(squares, d, sums.squares);
  hn::Store(contribution, d, sums.contribution);
}

// Near the mean of the visible elements; 0 if that is not finite.
double CentreOf(const float* row, size_t count, int64_t visible) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V excluded = hn::Set(d, -kInfinity);
  V sum = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V x = hn::LoadU(d, row + i);
    sum = hn::Add(sum, hn::IfThenZeroElse(hn::Eq(x, excluded), x));
  }
  double total = Total(sum);
  for (; i < count; ++i) {
    if (row[i] != -kInfinity) total += static_cast<double>(row[i]);
  }
  const auto mean = static_cast<float>(total / static_cast<double>(visible));
  return std::isfinite(mean) ? static_cast<double>(mean) : 0;
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTN_ENGINE_TILE_ROW_MOMENTS_INL_H
