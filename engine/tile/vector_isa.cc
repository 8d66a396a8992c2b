#include "engine/tile/vector_isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/vector_isa.cc"
#include "hwy/foreach_target.h"
// Only below: foreach_target.h includes this file again for each target.
#include "hwy/highway.h"
#include "hwy/targets.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

int64_t ThisTarget() { return HWY_TARGET; }

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(ThisTarget);

struct IsaTargets {
  VectorIsa isa;
  int64_t targets;
};

// Later versions of Highway know more targets of one kind.
constexpr IsaTargets kIsaTargets[] = {
    {VectorIsa::kAvx512, HWY_AVX3 | HWY_AVX3_DL
#ifdef HWY_AVX3_ZEN4
                             | HWY_AVX3_ZEN4
#endif
#ifdef HWY_AVX3_SPR
                             | HWY_AVX3_SPR
#endif
    },
    {VectorIsa::kAvx2, HWY_AVX2},
    {VectorIsa::kSse4, HWY_SSE4},
    {VectorIsa::kSve, HWY_SVE | HWY_SVE_256 | HWY_SVE2 | HWY_SVE2_128},
    {VectorIsa::kNeon, HWY_NEON},
};

int64_t TargetsOf(VectorIsa isa) {
  for (const IsaTargets& entry : kIsaTargets) {
    if (entry.isa == isa) return entry.targets;
  }
  return 0;
}

int64_t DisabledBy(IsaCap cap) {
  const int64_t avx512 = TargetsOf(VectorIsa::kAvx512);
  switch (cap) {
    case IsaCap::kSse4:
      return avx512 | TargetsOf(VectorIsa::kAvx2);
    case IsaCap::kAvx2:
      return avx512;
    case IsaCap::kAvx512:
      return avx512 & ~int64_t{HWY_AVX3};
    case IsaCap::kNative:
      break;
  }
  return 0;
}

}  // namespace

// By a dispatch, as everything that is computed: hwy::SupportedTargets() would
// for a moment choose the machine's widest vectors for all threads, whatever is
// disabled (Highway 1.0.3).
VectorIsa WidestVectors() {
  const int64_t target = HWY_DYNAMIC_DISPATCH(ThisTarget)();
  for (const IsaTargets& entry : kIsaTargets) {
    if ((target & entry.targets) != 0) return entry.isa;
  }
  return VectorIsa::kPortable;
}

void CapVectors(IsaCap cap) {
  hwy::DisableTargets(DisabledBy(cap));
  // What was chosen before is chosen anew.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace attn
#endif  // HWY_ONCE
