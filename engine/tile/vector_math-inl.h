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

// Of exp(r) for |r| <= ln 2 / 2, the highest power first.
constexpr float kExpSeries[] = {
    0.00138145394F, 0.00836874545F, 0.041668389F, 0.166665211F,
    0.49999994F,    1.0F,           1.0F};

// Whether the machine loads and stores some elements and leaves the others
// alone. AVX2 does so from 32 bits on; for narrower ones Highway touches all.
template <typename T>
constexpr bool kHasMasks = HWY_TARGET <= HWY_AVX3 ||
                           (HWY_TARGET <= HWY_AVX2 && sizeof(T) >= 4);

// The first `count` < Lanes(d) elements; the others are `fill`, and what stands
// in their place is not touched.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadTail(D d, const T* from, size_t count, T fill) {
  if constexpr (kHasMasks<T>) {
    const auto first = hn::FirstN(d, count);
    return hn::IfThenElse(first, hn::MaskedLoad(first, d, from),
                          hn::Set(d, fill));
  } else {
    HWY_ALIGN T lanes[hn::MaxLanes(d)];
    hn::Store(hn::Set(d, fill), d, lanes);
    for (size_t i = 0; i < count; ++i) lanes[i] = from[i];
    return hn::Load(d, lanes);
  }
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreTail(hn::Vec<D> v, D d, T* to, size_t count) {
  if constexpr (kHasMasks<T>) {
    hn::BlendedStore(v, hn::FirstN(d, count), d, to);
  } else {
    HWY_ALIGN T lanes[hn::MaxLanes(d)];
    hn::Store(v, d, lanes);
    for (size_t i = 0; i < count; ++i) to[i] = lanes[i];
  }
}

// exp(x) for x <= 0 and the x that it stands for.
template <class V>
struct ExpPair {
  V exp;
  // x, or a finite number below every logarithm of a float where exp is 0: the
  // product of the two is 0 then, and never 0 times infinity.
  V x;
};

// exp(x) for x <= 0, within 2 ulp; 0 where exp(x) is below the smallest normal
// float; NaN stays NaN. With x = n ln 2 + r, |r| <= ln 2 / 2, it is 2^n times
// a polynomial within 4e-9 of exp(r), relatively: the best one (minimax) with
// the first two coefficients held at 1, so that exp(0) is 1.
template <class D>
HWY_INLINE ExpPair<hn::Vec<D>> ExpPairOf(D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  // A number that has n + 127, the exponent of 2^n, in its lowest bits once n
  // is added, which rounds to an integer; -127 makes 2^n all zeros.
  const auto rounder = hn::Set(d, 0x1.8p23F + 127);
  const auto nothing = hn::Set(d, -88.0F);
  // ln 2 in two parts; the first has 9 significant bits, so that its product
  // with n is exact with or without fused multiply-add.
  const auto ln2_high = hn::Set(d, 0.693359375F);
  const auto ln2_low = hn::Set(d, -2.12194440e-4F);
  // ln of the smallest normal float, rounded up.
  const auto lowest = hn::Set(d, -87.336540F);

  x = hn::IfThenElse(hn::Lt(x, lowest), nothing, x);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504088896341F), rounder);
  const auto n = hn::Sub(shifted, rounder);
  auto r = hn::NegMulAdd(n, ln2_high, x);
  r = hn::NegMulAdd(n, ln2_low, r);
  auto exp_r = hn::Set(d, kExpSeries[0]);
  for (size_t i = 1; i < sizeof(kExpSeries) / sizeof(kExpSeries[0]); ++i) {
    exp_r = hn::MulAdd(exp_r, r, hn::Set(d, kExpSeries[i]));
  }
  const auto power =
      hn::BitCast(d, hn::ShiftLeft<kMantissaBits>(hn::BitCast(du, shifted)));
  return {hn::Mul(exp_r, power), x};
}

template <class D>
HWY_INLINE hn::Vec<D> ExpNonPositive(D d, hn::Vec<D> x) {
  return ExpPairOf(d, x).exp;
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
