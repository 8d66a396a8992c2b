#include "tests/bench/fma_peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/fma_peak.cc"
#include "hwy/foreach_target.h"
// Only below: foreach_target.h includes this file again for each target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
// Highway names the inner one anew for each target.
// NOLINTNEXTLINE(modernize-concat-nested-namespaces)
namespace attn {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kSteps = 100'000;
// Latency 4 on two ports needs 8 chains; 12 leave room for slower cores.
constexpr int64_t kChains = 12;

int64_t CountFlops() {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  return 2 * kSteps * kChains * lanes;
}

float Spin() {
  const hn::ScalableTag<float> d;
  // Near 1 and converging: no chain becomes denormal or infinite.
  const auto factor = hn::Set(d, 0.999F);
  const auto term = hn::Set(d, 0.001F);
  auto a0 = hn::Iota(d, 1.0F);
  auto a1 = hn::Iota(d, 2.0F);
  auto a2 = hn::Iota(d, 3.0F);
  auto a3 = hn::Iota(d, 4.0F);
  auto a4 = hn::Iota(d, 5.0F);
  auto a5 = hn::Iota(d, 6.0F);
  auto a6 = hn::Iota(d, 7.0F);
  auto a7 = hn::Iota(d, 8.0F);
  auto a8 = hn::Iota(d, 9.0F);
  auto a9 = hn::Iota(d, 10.0F);
  auto a10 = hn::Iota(d, 11.0F);
  auto a11 = hn::Iota(d, 12.0F);
  for (int64_t step = 0; step < kSteps; ++step) {
    a0 = hn::MulAdd(a0, factor, term);
    a1 = hn::MulAdd(a1, factor, term);
    a2 = hn::MulAdd(a2, factor, term);
    a3 = hn::MulAdd(a3, factor, term);
    a4 = hn::MulAdd(a4, factor, term);
    a5 = hn::MulAdd(a5, factor, term);
    a6 = hn::MulAdd(a6, factor, term);
    a7 = hn::MulAdd(a7, factor, term);
    a8 = hn::MulAdd(a8, factor, term);
    a9 = hn::MulAdd(a9, factor, term);
    a10 = hn::MulAdd(a10, factor, term);
    a11 = hn::MulAdd(a11, factor, term);
  }
  const auto low = hn::Add(hn::Add(a0, a1), hn::Add(a2, a3));
  const auto middle = hn::Add(hn::Add(a4, a5), hn::Add(a6, a7));
  const auto high = hn::Add(hn::Add(a8, a9), hn::Add(a10, a11));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(low, middle), high)));
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace attn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {

HWY_EXPORT(CountFlops);
HWY_EXPORT(Spin);

int64_t FmaFlops() { return HWY_DYNAMIC_DISPATCH(CountFlops)(); }
float SpinFma() { return HWY_DYNAMIC_DISPATCH(Spin)(); }

}  // namespace attn
#endif  // HWY_ONCE
