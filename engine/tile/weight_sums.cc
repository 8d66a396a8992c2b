// Compiled once for each instruction set, as row_math.cc.
#include "engine/tile/weight_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/weight_sums.cc"
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
// Sums run in float over so many elements, then in double, as in row_math.cc.
constexpr size_t kSumBlock = 512;

HWY_INLINE double Total(V sums) {
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), sums)));
}

// Calls op(vector) for the whole row; unused lanes are `fill`.
template <class Op>
HWY_INLINE void ForEach(const float* row, size_t count, float fill, Op op) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) op(hn::LoadU(d, row + i));
  if (i < count) op(LoadTail(d, row + i, count - i, fill));
}

double SumExpOf(const float* row, size_t count, float max) {
  const D d;
  const V pivot = hn::Set(d, max);
  double total = 0;
  for (size_t begin = 0; begin < count; begin += kSumBlock) {
    V sum = hn::Zero(d);
    ForEach(row + begin, std::min(kSumBlock, count - begin), -kInfinity,
            [&](V x) HWY_ATTR {
              sum = hn::Add(sum, ExpNonPositive(d, hn::Sub(x, pivot)));
            });
    total += Total(sum);
  }
  return total;
}

WeightSums<float> SumWeightsOf(const float* weights, size_t count) {
  const D d;
  const V zero = hn::Zero(d);
  const V one = hn::Set(d, 1.0F);
  V max = zero;
  WeightSums<float> sums;
  for (size_t begin = 0; begin < count; begin += kSumBlock) {
    V sum = zero;
    V weighted = zero;
    ForEach(weights + begin, std::min(kSumBlock, count - begin), 0,
            [&](V weight) HWY_ATTR {
              const auto none = hn::Eq(weight, zero);
              if (hn::AllTrue(d, none)) return;  // most of a sparse row
              max = hn::Max(weight, max);
              const V size = hn::Abs(weight);
              const V log = hn::Log(d, hn::IfThenElse(none, one, size));
              sum = hn::Add(sum, size);
              weighted = hn::MulAdd(size, log, weighted);
            });
    sums.sum += Total(sum);
    sums.weighted += Total(weighted);
  }
  sums.max = hn::GetLane(hn::MaxOfLanes(d, max));
  return sums;
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(SumExpOf);
HWY_EXPORT(SumWeightsOf);

size_t Size(int64_t count) { return static_cast<size_t>(count); }

}  // namespace

double SumExp(const float* row, int64_t count, float max) {
  return HWY_DYNAMIC_DISPATCH(SumExpOf)(row, Size(count), max);
}

double SumExp(const double* row, int64_t count, double max) {
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += std::exp(row[j] - max);
  return sum;
}

WeightSums<float> SumWeights(const float* weights, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SumWeightsOf)(weights, Size(count));
}

WeightSums<double> SumWeights(const double* weights, int64_t count) {
  WeightSums<double> sums;
  for (int64_t j = 0; j < count; ++j) {
    const double size = std::abs(weights[j]);
    if (size == 0) continue;
    sums.sum += size;
    sums.weighted += size * std::log(size);
    sums.max = std::max(sums.max, weights[j]);
  }
  return sums;
}

}  // namespace attn
#endif  // HWY_ONCE
