// Compiled once for each instruction set; HWY_DYNAMIC_DISPATCH takes the best
// that the machine has.
#include "engine/tile/softmax_gradient.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/softmax_gradient.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "engine/tile/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// As in row_math.cc: sums run in float over so many elements, then in double.
constexpr size_t kSumBlock = 512;

// Calls op(vector of a, vector of b, first element) for the whole rows. Lanes
// that are not in use hold 0.
template <class Op>
HWY_INLINE void ForEachPair(const float* a, const float* b, size_t count,
                            Op op) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    op(hn::LoadU(d, a + i), hn::LoadU(d, b + i), i);
  }
  if (i == count) return;
  const size_t rest = count - i;
  op(LoadTail(d, a + i, rest, 0.0F), LoadTail(d, b + i, rest, 0.0F), i);
}

// The lanes of `v` that are elements of a row, from element i on.
HWY_INLINE void StorePart(V v, float* row, size_t i, size_t count) {
  const D d;
  if (i + hn::Lanes(d) <= count) {
    hn::StoreU(v, d, row + i);
  } else {
    StoreTail(v, d, row + i, count - i);
  }
}

double SumLanes(V v) {
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), v)));
}

double WeightedSumOf(const float* weights, const float* values, size_t count) {
  const D d;
  const V zero = hn::Zero(d);
  double total = 0;
  for (size_t begin = 0; begin < count; begin += kSumBlock) {
    V even = zero;
    V odd = zero;
    const auto add = [&](V w, V x, size_t /*i*/) {
      const V sum = hn::MulAdd(w, hn::IfThenZeroElse(hn::Eq(w, zero), x), even);
      even = odd;
      odd = sum;
    };
    ForEachPair(weights + begin, values + begin,
                std::min(kSumBlock, count - begin), add);
    total += SumLanes(hn::Add(even, odd));
  }
  return total;
}

void SoftmaxGradientRowOf(const float* weights, size_t count, float factor,
                          float shift, float* gradient) {
  const D d;
  const V zero = hn::Zero(d);
  const V f = hn::Set(d, factor);
  const V s = hn::Set(d, shift);
  ForEachPair(weights, gradient, count, [&](V w, V g, size_t i) {
    const V x = hn::Mul(w, hn::MulAdd(f, g, s));
    StorePart(hn::IfThenZeroElse(hn::Eq(w, zero), x), gradient, i, count);
  });
}

double SoftcapGradientRowOf(const float* x, size_t count, float cap,
                            float* gradient) {
  const D d;
  const V zero = hn::Zero(d);
  const V one = hn::Set(d, 1.0F);
  const V limit = hn::Set(d, cap);
  double total = 0;
  for (size_t begin = 0; begin < count; begin += kSumBlock) {
    const size_t part = std::min(kSumBlock, count - begin);
    V sum = zero;
    const auto step = [&](V scores, V g, size_t i) {
      const auto unused = hn::Eq(g, zero);
      const V u = hn::Div(scores, limit);
      // 1 / cosh(u)^2 = 4 e / (1 + e)^2 with e = exp(-2 |u|): no digits cancel.
      const V e = ExpNonPositive(d, hn::Mul(hn::Abs(u), hn::Set(d, -2.0F)));
      const V root = hn::Add(one, e);
      const V slope =
          hn::Div(hn::Mul(hn::Set(d, 4.0F), e), hn::Mul(root, root));
      // Beyond the floats' range of exp, u may be infinite.
      const V bend = hn::IfThenZeroElse(hn::Eq(slope, zero), hn::Mul(u, slope));
      const V of_cap = hn::Mul(g, hn::Sub(TanhOf(d, u), bend));
      sum = hn::Add(sum, hn::IfThenZeroElse(unused, of_cap));
      StorePart(hn::IfThenZeroElse(unused, hn::Mul(g, slope)), gradient + begin,
                i, part);
    };
    ForEachPair(x + begin, gradient + begin, part, step);
    total += SumLanes(sum);
  }
  return total;
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(WeightedSumOf);
HWY_EXPORT(SoftmaxGradientRowOf);
HWY_EXPORT(SoftcapGradientRowOf);

size_t Size(int64_t count) { return static_cast<size_t>(count); }

}  // namespace

double WeightedSum(const float* weights, const float* values, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(WeightedSumOf)(weights, values, Size(count));
}

void SoftmaxGradientRow(const float* weights, int64_t count, float factor,
                        float shift, float* gradient) {
  HWY_DYNAMIC_DISPATCH(SoftmaxGradientRowOf)
  (weights, Size(count), factor, shift, gradient);
}

double SoftcapGradientRow(const float* x, int64_t count, float cap,
                          float* gradient) {
  return HWY_DYNAMIC_DISPATCH(SoftcapGradientRowOf)(x, Size(count), cap,
                                                    gradient);
}

}  // namespace attn
#endif  // HWY_ONCE
