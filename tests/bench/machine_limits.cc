#include "tests/bench/machine_limits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/machine_limits.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "engine/tile/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// 4 KiB of numbers.
constexpr size_t kExpNumbers = 1024;
constexpr int kExpRounds = 64;

float SpinExpOf() {
  const D d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float numbers[kExpNumbers];
  for (size_t i = 0; i < kExpNumbers; ++i) {
    numbers[i] = -static_cast<float>(i) / 64;
  }
  V sum0 = hn::Zero(d);
  V sum1 = hn::Zero(d);
  V shift = hn::Zero(d);
  for (int round = 0; round < kExpRounds; ++round) {
    for (size_t i = 0; i < kExpNumbers; i += 2 * lanes) {
      const V x0 = hn::Sub(hn::Load(d, numbers + i), shift);
      const V x1 = hn::Sub(hn::Load(d, numbers + i + lanes), shift);
      sum0 = hn::Add(sum0, ExpNonPositive(d, x0));
      sum1 = hn::Add(sum1, ExpNonPositive(d, x1));
    }
    shift = hn::Add(shift, hn::Set(d, 0.01F));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
}

float ReadAllOf(const float* from, size_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V sum0 = hn::Zero(d);
  V sum1 = hn::Zero(d);
  V sum2 = hn::Zero(d);
  V sum3 = hn::Zero(d);
  for (size_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    sum0 = hn::Add(sum0, hn::Load(d, from + i));
    sum1 = hn::Add(sum1, hn::Load(d, from + i + lanes));
    sum2 = hn::Add(sum2, hn::Load(d, from + i + 2 * lanes));
    sum3 = hn::Add(sum3, hn::Load(d, from + i + 3 * lanes));
  }
  const V sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {

HWY_EXPORT(SpinExpOf);
HWY_EXPORT(ReadAllOf);

int64_t ExpCount() { return int64_t{1024} * 64; }

float SpinExp() { return HWY_DYNAMIC_DISPATCH(SpinExpOf)(); }

float ReadAll(const float* from, size_t count) {
  return HWY_DYNAMIC_DISPATCH(ReadAllOf)(from, count);
}

}  // namespace attn
#endif  // HWY_ONCE
