// Vector building blocks, compiled once for each instruction set: partial
// loads, exp and tanh. Include after hwy/highway.h.

// The guard that lets foreach_target.h include this once for each target.
#if defined(ATTN_ENGINE_TILE_VECTOR_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTN_ENGINE_TILE_VECTOR_MATH_INL_H
#undef ATTN_ENGINE_TILE_VECTOR_MATH_INL_H
#else
#define ATTN_ENGINE_TILE_VECTOR_MATH_INL_H
#endif

#include <cstdint>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Of a float.
constexpr int kMantissaBits = 23;

// The first `count` < Lanes(d) elements; the others are `fill`.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadTail(D d, const T* from, size_t count, T fill) {
  HWY_ALIGN T lanes[hn::MaxLanes(d)];
  hn::Store(hn::Set(d, fill), d, lanes);
  for (size_t i = 0; i < count; ++i) lanes[i] = from[i];
  return hn::Load(d, lanes);
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreTail(hn::Vec<D> v, D d, T* to, size_t count) {
  HWY_ALIGN T lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// exp(x) for x <= 0, within 2 ulp; 0 where exp(x) is below the smallest normal
// float; NaN stays NaN. With x = n ln 2 + r, |r| <= ln 2 / 2, it is 2^n times
// the Taylor series of exp(r), whose first term left out, r^8 / 8!, is below
// 6e-9.
template <class D>
HWY_INLINE hn::Vec<D> ExpNonPositive(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  // ln 2 in two parts; the first has 9 significant bits, so that its product
  // with n is exact with or without fused multiply-add.
  const auto ln2_high = hn::Set(d, 0.693359375F);
  const auto ln2_low = hn::Set(d, -2.12194440e-4F);
  // ln of the smallest normal float, rounded up.
  const auto lowest = hn::Set(d, -87.336540F);

  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504088896341F)));
  auto r = hn::NegMulAdd(n, ln2_high, x);
  r = hn::NegMulAdd(n, ln2_low, r);
  auto series = hn::Set(d, 1.0F / 5040);
  series = hn::MulAdd(series, r, hn::Set(d, 1.0F / 720));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0F / 120));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0F / 24));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0F / 6));
  series = hn::MulAdd(series, r, hn::Set(d, 0.5F));
  const auto exp_r =
      hn::Add(hn::MulAdd(series, hn::Mul(r, r), r), hn::Set(d, 1.0F));
  const auto shift = hn::ShiftLeft<kMantissaBits>(hn::ConvertTo(di, n));
  const auto exp_x = hn::BitCast(d, hn::Add(hn::BitCast(di, exp_r), shift));
  const auto normal = hn::IfThenZeroElse(hn::Lt(x, lowest), exp_x);
  return hn::IfThenElse(hn::IsNaN(x), x, normal);
}

// tanh(x) within 3 ulp; NaN stays NaN. Near 0 its Taylor series, elsewhere
// (1 - e) / (1 + e) with e = exp(-2 |x|).
template <class D>
HWY_INLINE hn::Vec<D> TanhOf(D d, hn::Vec<D> x) {
  // Up to here the first term left out of the series, 929569/638512875 x^14 of
  // the whole, is below 4e-9; from here on 1 - e loses at most one bit.
  const auto near_limit = hn::Set(d, 0.4F);
  const auto one = hn::Set(d, 1.0F);

  const auto magnitude = hn::Abs(x);
  const auto e = ExpNonPositive(d, hn::Mul(magnitude, hn::Set(d, -2.0F)));
  const auto far = hn::Div(hn::Sub(one, e), hn::Add(one, e));

  const auto square = hn::Mul(x, x);
  auto series = hn::Set(d, 21844.0F / 6081075);
  series = hn::MulAdd(series, square, hn::Set(d, -1382.0F / 155925));
  series = hn::MulAdd(series, square, hn::Set(d, 62.0F / 2835));
  series = hn::MulAdd(series, square, hn::Set(d, -17.0F / 315));
  series = hn::MulAdd(series, square, hn::Set(d, 2.0F / 15));
  series = hn::MulAdd(series, square, hn::Set(d, -1.0F / 3));
  const auto near = hn::MulAdd(hn::Mul(series, square), x, x);
  return hn::IfThenElse(hn::Lt(magnitude, near_limit), near,
                        hn::CopySign(far, x));
}

}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTN_ENGINE_TILE_VECTOR_MATH_INL_H
