// Sums, maxima and minima over the lanes of many vectors at once: compiled once
// for each instruction set. Include after hwy/highway.h.

// The guard that lets foreach_target.h include this once for each target.
#if defined(ATTN_ENGINE_TILE_ROW_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTN_ENGINE_TILE_ROW_LANES_INL_H
#undef ATTN_ENGINE_TILE_ROW_LANES_INL_H
#else
#define ATTN_ENGINE_TILE_ROW_LANES_INL_H
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors that are reduced together.
constexpr size_t kLaneRows = 16;

struct AddLanes {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
  template <class D>
  HWY_INLINE float OfLanes(D d, hn::Vec<D> v) const {
    return hn::GetLane(hn::SumOfLanes(d, v));
  }
};
struct MaxLanesOf {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
  template <class D>
  HWY_INLINE float OfLanes(D d, hn::Vec<D> v) const {
    return hn::GetLane(hn::MaxOfLanes(d, v));
  }
};
struct MinLanesOf {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Min(a, b);
  }
  template <class D>
  HWY_INLINE float OfLanes(D d, hn::Vec<D> v) const {
    return hn::GetLane(hn::MinOfLanes(d, v));
  }
};

// results[r] = op over the lanes of vector r; `vectors` [kLaneRows, lanes],
// aligned. A row's result depends on no other row.
#if HWY_TARGET <= HWY_AVX3 && HWY_TARGET != HWY_SCALAR
// As a tree over pairs of rows: each step halves the lanes of two vectors and
// puts what is left into one.
template <class D, class Op>
HWY_INLINE void ReduceLanes(D d, const float* vectors, Op op, float* results) {
  using V = hn::Vec<D>;
  const hn::RepartitionToWide<D> wide;
  V quarter[4];
  HWY_UNROLL(4)
  for (size_t i = 0; i < 4; ++i) {
    V pair[2];
    HWY_UNROLL(2)
    for (size_t j = 0; j < 2; ++j) {
      const V a = hn::Load(d, vectors + (4 * i + 2 * j) * 16);
      const V b = hn::Load(d, vectors + (4 * i + 2 * j + 1) * 16);
      pair[j] = op(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
    }
    const auto low = hn::BitCast(wide, pair[0]);
    const auto high = hn::BitCast(wide, pair[1]);
    quarter[i] = op(hn::BitCast(d, hn::InterleaveLower(wide, low, high)),
                    hn::BitCast(d, hn::InterleaveUpper(wide, low, high)));
  }
  // Of 128-bit blocks, the even ones and the odd ones of both.
  const auto halve = [op](V a, V b) HWY_ATTR {
    return op(V{_mm512_shuffle_f32x4(a.raw, b.raw, 0x88)},
              V{_mm512_shuffle_f32x4(a.raw, b.raw, 0xDD)});
  };
  hn::StoreU(
      halve(halve(quarter[0], quarter[1]), halve(quarter[2], quarter[3])), d,
      results);
}
#else
template <class D, class Op>
HWY_INLINE void ReduceLanes(D d, const float* vectors, Op op, float* results) {
  for (size_t r = 0; r < kLaneRows; ++r) {
    results[r] = op.OfLanes(d, hn::Load(d, vectors + r * hn::Lanes(d)));
  }
}
#endif

}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTN_ENGINE_TILE_ROW_LANES_INL_H
