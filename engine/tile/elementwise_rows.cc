// Compiled once for each instruction set, as row_math.cc.
#include "engine/tile/elementwise_rows.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/elementwise_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "engine/tile/vector_math-inl.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
// Sums run in float over so many elements, then in double, as in row_math.cc.
constexpr size_t kSumBlock = 512;
// Beyond any logarithm of a float, and within what exp() of doubles takes.
constexpr double kLargestLog = 700;

// row = op(row), in place; unused lanes see 0.
template <class Tag, class Op>
HWY_INLINE void Transform(Tag d, float* row, size_t count, Op op) {
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(op(hn::LoadU(d, row + i)), d, row + i);
  }
  if (i == count) return;
  StoreTail(op(LoadTail(d, row + i, count - i, 0.0F)), d, row + i, count - i);
}

void SigmoidRowOf(float* row, size_t count, float bias, float divisor) {
  const D d;
  const V shift = hn::Set(d, bias);
  const V by = hn::Set(d, divisor);
  const V one = hn::Set(d, 1.0F);
  const V zero = hn::Zero(d);
  Transform(d, row, count, [&](V x) HWY_ATTR {
    const V logit = hn::Add(x, shift);
    const V e = ExpNonPositive(d, hn::Neg(hn::Abs(logit)));
    const V numerator = hn::IfThenElse(hn::Lt(logit, zero), e, one);
    return hn::Div(numerator, hn::Mul(hn::Add(one, e), by));
  });
}

// Any power, in double.
void ReluPowerOf(float* row, size_t count, double power, float divisor) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, hn::ScalableTag<double>> d;
  const auto exponent = hn::Set(wide, power);
  const auto by = hn::Set(wide, static_cast<double>(divisor));
  const auto zero = hn::Zero(wide);
  const auto one = hn::Set(wide, 1.0);
  const auto infinity = hn::Set(wide, static_cast<double>(kInfinity));
  const auto largest = hn::Set(wide, kLargestLog);
  Transform(d, row, count, [&](hn::Vec<decltype(d)> narrow) HWY_ATTR {
    const auto x = hn::PromoteTo(wide, narrow);
    const auto is_finite = hn::And(hn::Gt(x, zero), hn::Lt(x, infinity));
    const auto log = hn::Log(wide, hn::IfThenElse(is_finite, x, one));
    const auto value = hn::Exp(wide, hn::Min(hn::Mul(exponent, log), largest));
    const auto edges = hn::Max(x, zero);
    const auto quotient =
        hn::DemoteTo(d, hn::Div(hn::IfThenElse(is_finite, value, edges), by));
    // DemoteTo() saturates.
    return hn::IfThenElse(hn::Ge(quotient, hn::Set(d, kLargest)),
                          hn::Set(d, kInfinity), quotient);
  });
}

void ReluRowOf(float* row, size_t count, double power, float divisor) {
  const D d;
  const V by = hn::Set(d, divisor);
  const V zero = hn::Zero(d);
  if (power == 1) {
    Transform(d, row, count,
              [&](V x) HWY_ATTR { return hn::Div(hn::Max(x, zero), by); });
  } else if (power == 2) {
    // Divided first: a square may overflow whose quotient does not.
    Transform(d, row, count, [&](V x) HWY_ATTR {
      const V size = hn::Max(x, zero);
      return hn::Mul(hn::Div(size, by), size);
    });
  } else {
    ReluPowerOf(row, count, power, divisor);
  }
}

double SumPositiveOf(const float* row, size_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V zero = hn::Zero(d);
  double total = 0;
  for (size_t begin = 0; begin < count; begin += kSumBlock) {
    const size_t end = std::min(begin + kSumBlock, count);
    V sum = zero;
    size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      sum = hn::Add(sum, hn::Max(hn::LoadU(d, row + i), zero));
    }
    if (i < end) {
      sum = hn::Add(sum, hn::Max(LoadTail(d, row + i, end - i, 0.0F), zero));
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(SigmoidRowOf);
HWY_EXPORT(ReluRowOf);
HWY_EXPORT(SumPositiveOf);

size_t Size(int64_t count) { return static_cast<size_t>(count); }

}  // namespace

void SigmoidRow(float* row, int64_t count, float bias, float divisor) {
  HWY_DYNAMIC_DISPATCH(SigmoidRowOf)(row, Size(count), bias, divisor);
}

void ReluRow(float* row, int64_t count, double power, float divisor) {
  HWY_DYNAMIC_DISPATCH(ReluRowOf)(row, Size(count), power, divisor);
}

double SumPositive(const float* row, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SumPositiveOf)(row, Size(count));
}

}  // namespace attn
#endif  // HWY_ONCE
