// The float overloads of row_math.h. This file is compiled once for each
// instruction set; HWY_DYNAMIC_DISPATCH takes the best that the machine has.
#include "engine/tile/row_math.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/row_math.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "engine/tile/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
// Sums run in float over so many elements, then in double: a multiple of every
// vector length, small enough that each lane adds few numbers.
constexpr size_t kSumBlock = 512;

// Calls op(vector, lanes in use) for the whole row; unused lanes are `fill`.
template <class Op>
HWY_INLINE void ForEach(const float* row, size_t count, float fill, Op op) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) op(hn::LoadU(d, row + i));
  if (i < count) op(LoadTail(d, row + i, count - i, fill));
}

// row = op(row), in place; unused lanes see `fill`.
template <class Op>
HWY_INLINE void Transform(float* row, size_t count, float fill, Op op) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(op(hn::LoadU(d, row + i)), d, row + i);
  }
  if (i == count) return;
  StoreTail(op(LoadTail(d, row + i, count - i, fill)), d, row + i, count - i);
}

// `result` where `finite` does not hold, else kept within the finite numbers.
HWY_INLINE V SaturateIf(hn::Mask<D> finite, V result) {
  const D d;
  const V clamped =
      hn::Min(hn::Max(result, hn::Set(d, -kLargest)), hn::Set(d, kLargest));
  return hn::IfThenElse(finite, clamped, result);
}

float RowMaxOf(const float* row, size_t count) {
  const D d;
  V max = hn::Set(d, -kInfinity);
  ForEach(row, count, -kInfinity,
          [&](V x) { max = hn::IfThenElse(hn::Gt(x, max), x, max); });
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

// Of a row with NaN or excluded elements among others.
RowRange<float> ScanMixedRow(const float* row, size_t count) {
  const D d;
  const V excluded = hn::Set(d, -kInfinity);
  V max = excluded;
  V min = hn::Set(d, kInfinity);
  size_t hidden = 0;
  size_t nans = 0;
  const auto scan = [&](V x) {
    const auto is_excluded = hn::Eq(x, excluded);
    max = hn::IfThenElse(hn::Gt(x, max), x, max);
    const auto lower = hn::AndNot(is_excluded, hn::Lt(x, min));
    min = hn::IfThenElse(lower, x, min);
    hidden += hn::CountTrue(d, is_excluded);
    nans += hn::CountTrue(d, hn::IsNaN(x));
  };
  ForEach(row, count, -kInfinity, scan);
  const size_t lanes = hn::Lanes(d);
  const size_t padding = (lanes - count % lanes) % lanes;
  RowRange<float> range;
  range.visible = static_cast<int64_t>(count + padding - hidden);
  range.has_nan = nans != 0;
  if (range.visible > static_cast<int64_t>(nans)) {
    range.max = hn::GetLane(hn::MaxOfLanes(d, max));
    range.min = hn::GetLane(hn::MinOfLanes(d, min));
  }
  return range;
}

RowRange<float> ScanRowOf(const float* row, size_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  // What Max and Min do with NaN does not matter: such rows are scanned again.
  V max = hn::Set(d, -kInfinity);
  V min = hn::Set(d, kInfinity);
  auto has_nan = hn::IsNaN(min);
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const V a = hn::LoadU(d, row + i);
    const V b = hn::LoadU(d, row + i + lanes);
    max = hn::Max(hn::Max(a, b), max);
    min = hn::Min(hn::Min(a, b), min);
    has_nan = hn::Or(has_nan, hn::IsNaN(hn::Add(a, b)));
  }
  ForEach(row + i, count - i, count > 0 ? row[0] : 0, [&](V x) {
    max = hn::Max(x, max);
    min = hn::Min(x, min);
    has_nan = hn::Or(has_nan, hn::IsNaN(x));
  });
  const float lowest = hn::GetLane(hn::MinOfLanes(d, min));
  if (count == 0 || !hn::AllFalse(d, has_nan) || !(lowest > -kInfinity)) {
    return ScanMixedRow(row, count);
  }
  return {lowest, hn::GetLane(hn::MaxOfLanes(d, max)),
          static_cast<int64_t>(count), false};
}

ExpSums ExpRowOf(float* row, size_t count, float max) {
  const D d;
  const V pivot = hn::Set(d, max);
  const V zero = hn::Zero(d);
  ExpSums sums;
  for (size_t begin = 0; begin < count; begin += kSumBlock) {
    V sum = zero;
    V weighted = zero;
    const auto exp = [&](V x) {
      const auto pair = ExpPairOf(d, hn::Sub(x, pivot));
      sum = hn::Add(sum, pair.exp);
      weighted = hn::MulAdd(pair.exp, pair.x, weighted);
      return pair.exp;
    };
    Transform(row + begin, std::min(kSumBlock, count - begin), -kInfinity, exp);
    sums.sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
    sums.weighted +=
        static_cast<double>(hn::GetLane(hn::SumOfLanes(d, weighted)));
  }
  return sums;
}

void ScaleRowOf(float* row, size_t count, float factor) {
  const V f = hn::Set(D(), factor);
  Transform(row, count, 0, [&](V x) { return hn::Mul(x, f); });
}

void DivideRowOf(float* row, size_t count, float divisor) {
  const V by = hn::Set(D(), divisor);
  Transform(row, count, 0, [&](V x) {
    const V quotient = hn::Div(x, by);
    if (HWY_LIKELY(hn::AllTrue(D(), hn::IsFinite(quotient)))) return quotient;
    return SaturateIf(hn::IsFinite(x), quotient);
  });
}

void AddRowOf(float* row, const float* other, size_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V excluded = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto add = [excluded](V a, V b) {
    const D tag;
    V sum = hn::Add(a, b);
    if (HWY_LIKELY(hn::AllTrue(tag, hn::IsFinite(sum)))) return sum;
    sum = SaturateIf(hn::And(hn::IsFinite(a), hn::IsFinite(b)), sum);
    return hn::IfThenElse(hn::Or(hn::Eq(a, excluded), hn::Eq(b, excluded)),
                          excluded, sum);
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V sum = add(hn::LoadU(d, row + i), hn::LoadU(d, other + i));
    hn::StoreU(sum, d, row + i);
  }
  if (i == count) return;
  const size_t rest = count - i;
  StoreTail(
      add(LoadTail(d, row + i, rest, 0.0F), LoadTail(d, other + i, rest, 0.0F)),
      d, row + i, rest);
}

void SoftcapRowOf(float* row, size_t count, float cap) {
  const D d;
  const V limit = hn::Set(d, cap);
  const V inverse = hn::Set(d, 1 / cap);
  Transform(row, count, 0, [&](V x) {
    return hn::Mul(limit, TanhOf(d, hn::Mul(x, inverse)));
  });
}

void DistanceRowOf(float* row, size_t count, int64_t start, float factor) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V f = hn::Set(d, factor);
  const V iota = hn::Iota(d, 0.0F);
  for (size_t i = 0; i < count; i += lanes) {
    const auto first = static_cast<float>(start - static_cast<int64_t>(i));
    const V distance = hn::Abs(hn::Sub(hn::Set(d, first), iota));
    const V value = SaturateIf(hn::IsFinite(f), hn::Mul(f, distance));
    if (i + lanes <= count) {
      hn::StoreU(value, d, row + i);
    } else {
      StoreTail(value, d, row + i, count - i);
    }
  }
}

void ExcludeRowOf(float* row, const uint8_t* allowed, size_t count) {
  const D d;
  const hn::Rebind<uint8_t, D> d8;
  const hn::Rebind<int32_t, D> d32;
  const size_t lanes = hn::Lanes(d);
  const V excluded = hn::Set(d, -kInfinity);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bytes = hn::PromoteTo(d32, hn::LoadU(d8, allowed + i));
    const auto hide = hn::RebindMask(d, hn::Eq(bytes, hn::Zero(d32)));
    const V x = hn::LoadU(d, row + i);
    hn::StoreU(hn::IfThenElse(hide, excluded, x), d, row + i);
  }
  for (; i < count; ++i) {
    if (allowed[i] == 0) row[i] = -kInfinity;
  }
}

float DotOf(const float* a, const float* b, size_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V even = hn::Zero(d);
  V odd = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), even);
    odd = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes),
                     odd);
  }
  for (; i < count; i += lanes) {
    const size_t rest = std::min(lanes, count - i);
    const bool whole = rest == lanes;
    const V x = whole ? hn::LoadU(d, a + i) : LoadTail(d, a + i, rest, 0.0F);
    const V y = whole ? hn::LoadU(d, b + i) : LoadTail(d, b + i, rest, 0.0F);
    even = hn::MulAdd(x, y, even);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
}

int64_t FirstIndexOfIn(const float* row, size_t count, float value) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V wanted = hn::Set(d, value);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, row + i), wanted));
    if (at >= 0) return static_cast<int64_t>(i) + at;
  }
  for (; i < count; ++i) {
    if (row[i] == value) return static_cast<int64_t>(i);
  }
  return -1;
}

int64_t CountNonFiniteIn(const float* row, size_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  // 0 times a finite number is 0, and NaN otherwise: one look for many.
  const V zero = hn::Zero(d);
  V even = zero;
  V odd = zero;
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = hn::MulAdd(hn::LoadU(d, row + i), zero, even);
    odd = hn::MulAdd(hn::LoadU(d, row + i + lanes), zero, odd);
  }
  const bool finite = hn::AllTrue(d, hn::Eq(hn::Add(even, odd), zero));
  if (HWY_LIKELY(finite)) {
    row += i;
    count -= i;
  }
  size_t nonfinite = 0;
  ForEach(row, count, 0, [&](V x) {
    nonfinite += hn::CountTrue(d, hn::Not(hn::IsFinite(x)));
  });
  return static_cast<int64_t>(nonfinite);
}

int64_t ChosenTarget() { return HWY_TARGET; }

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(RowMaxOf);
HWY_EXPORT(ScanRowOf);
HWY_EXPORT(ExpRowOf);
HWY_EXPORT(ScaleRowOf);
HWY_EXPORT(DivideRowOf);
HWY_EXPORT(AddRowOf);
HWY_EXPORT(SoftcapRowOf);
HWY_EXPORT(DistanceRowOf);
HWY_EXPORT(ExcludeRowOf);
HWY_EXPORT(DotOf);
HWY_EXPORT(FirstIndexOfIn);
HWY_EXPORT(CountNonFiniteIn);
HWY_EXPORT(ChosenTarget);

size_t Size(int64_t count) { return static_cast<size_t>(count); }

}  // namespace

float RowMax(const float* row, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(RowMaxOf)(row, Size(count));
}

RowRange<float> ScanRow(const float* row, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(ScanRowOf)(row, Size(count));
}

ExpSums ExpRow(float* row, int64_t count, float max) {
  return HWY_DYNAMIC_DISPATCH(ExpRowOf)(row, Size(count), max);
}

void ScaleRow(float* row, int64_t count, float factor) {
  HWY_DYNAMIC_DISPATCH(ScaleRowOf)(row, Size(count), factor);
}

void DivideRow(float* row, int64_t count, float divisor) {
  HWY_DYNAMIC_DISPATCH(DivideRowOf)(row, Size(count), divisor);
}

void AddRow(float* row, const float* other, int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddRowOf)(row, other, Size(count));
}

void SoftcapRow(float* row, int64_t count, float cap) {
  HWY_DYNAMIC_DISPATCH(SoftcapRowOf)(row, Size(count), cap);
}

void DistanceRow(float* row, int64_t count, int64_t start, float factor) {
  HWY_DYNAMIC_DISPATCH(DistanceRowOf)(row, Size(count), start, factor);
}

void ExcludeRow(float* row, const uint8_t* allowed, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ExcludeRowOf)(row, allowed, Size(count));
}

float Dot(const float* a, const float* b, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(DotOf)(a, b, Size(count));
}

int64_t FirstIndexOf(const float* row, int64_t count, float value) {
  return HWY_DYNAMIC_DISPATCH(FirstIndexOfIn)(row, Size(count), value);
}

int64_t CountNonFinite(const float* row, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(CountNonFiniteIn)(row, Size(count));
}

std::string RowMathIsa() {
  return hwy::TargetName(HWY_DYNAMIC_DISPATCH(ChosenTarget)());
}

}  // namespace attn
#endif  // HWY_ONCE
