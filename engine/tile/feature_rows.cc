// Compiled once for each instruction set, as row_math.cc.
#include "engine/tile/feature_rows.h"

#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/feature_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "engine/tile/vector_math-inl.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// Where exp() of doubles that Highway has may be taken.
constexpr double kMaxExp = 700;

HWY_INLINE V LoadSomeLanes(const double* from, size_t count) {
  const D d;
  return count >= hn::Lanes(d) ? hn::LoadU(d, from)
                               : LoadTail(d, from, count, 0.0);
}

HWY_INLINE void StoreSomeLanes(V x, double* to, size_t count) {
  const D d;
  if (count >= hn::Lanes(d)) return hn::StoreU(x, d, to);
  StoreTail(x, d, to, count);
}

// NaN stays NaN.
HWY_INLINE V ExpOf(V x) {
  const D d;
  if (HWY_LIKELY(hn::AllTrue(d, hn::Le(x, hn::Set(d, kMaxExp))))) {
    return hn::Exp(d, x);
  }
  HWY_ALIGN double lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = std::exp(lanes[i]);
  return hn::Load(d, lanes);
}

// row = op(row)
template <class Op>
HWY_INLINE void Transform(double* row, size_t count, Op op) {
  for (size_t i = 0; i < count; i += hn::Lanes(D())) {
    StoreSomeLanes(op(LoadSomeLanes(row + i, count - i)), row + i, count - i);
  }
}

void ExpRowOf(double* row, size_t count) {
  Transform(row, count, [](V x) HWY_ATTR { return ExpOf(x); });
}

void FeatureRowOf(FeatureMap map, double* row, size_t count) {
  const V zero = hn::Zero(D());
  const V one = hn::Set(D(), 1.0);
  switch (map) {
    case FeatureMap::kIdentity:
      return;
    case FeatureMap::kExp:
      return ExpRowOf(row, count);
    case FeatureMap::kRelu:
      return Transform(row, count, [&](V x) HWY_ATTR {
        return hn::IfThenElseZero(hn::Gt(x, zero), x);
      });
    case FeatureMap::kEluPlusOne:
      return Transform(row, count, [&](V x) HWY_ATTR {
        const auto is_positive = hn::Gt(x, zero);
        const V e = ExpOf(hn::IfThenZeroElse(is_positive, x));
        return hn::IfThenElse(is_positive, hn::Add(x, one), e);
      });
  }
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(ExpRowOf);
HWY_EXPORT(FeatureRowOf);

size_t Size(int64_t count) { return static_cast<size_t>(count); }

}  // namespace

void FeatureRow(FeatureMap map, double* row, int64_t count) {
  HWY_DYNAMIC_DISPATCH(FeatureRowOf)(map, row, Size(count));
}

void ExpRow(double* row, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ExpRowOf)(row, Size(count));
}

}  // namespace attn
#endif  // HWY_ONCE
