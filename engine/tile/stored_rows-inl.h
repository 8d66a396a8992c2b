// How rows of narrow elements are taken into registers and multiplied, compiled
// once for each instruction set. Include after hwy/highway.h.

// The guard that lets foreach_target.h include this once for each target.
#if defined(ATTN_ENGINE_TILE_STORED_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTN_ENGINE_TILE_STORED_ROWS_INL_H
#undef ATTN_ENGINE_TILE_STORED_ROWS_INL_H
#else
#define ATTN_ENGINE_TILE_STORED_ROWS_INL_H
#endif

#include <cstddef>
#include <cstdint>

#include "engine/tile/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Products in float.
struct Singles {
  using Few = float;
  using Operand = V;
  // Elements of a row in one operand.
  static constexpr size_t kElements = hn::MaxLanes(D());
  static HWY_INLINE V LoadFew(const float* from) {
    return hn::LoadU(D(), from);
  }
  static HWY_INLINE V MulAdd(V a, V b, V sum) { return hn::MulAdd(a, b, sum); }
};

// Stored rows of a type: `Widen` says how its elements become floats.
template <class Widen>
struct Stored {
  using Product = Singles;
  using Element = typename Widen::Element;
  using Tag = hn::Rebind<Element, D>;
  static HWY_INLINE V Load(const Element* from) {
    return Widen::Call(hn::LoadU(Tag(), from));
  }
  // The first `count` elements; nothing beyond is touched.
  static HWY_INLINE V LoadRest(const Element* from, size_t count) {
    return Widen::Call(LoadTail(Tag(), from, count, Element{0}));
  }
};

struct WidenF32 {
  using Element = float;
  static HWY_INLINE V Call(V x) { return x; }
};

struct WidenBF16 {
  using Element = uint16_t;
  static HWY_INLINE V Call(hn::Vec<hn::Rebind<uint16_t, D>> x) {
    const hn::RebindToUnsigned<D> d32;
    return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(d32, x)));
  }
};

struct WidenF16 {
  using Element = uint16_t;
  static HWY_INLINE V Call(hn::Vec<hn::Rebind<uint16_t, D>> x) {
    const hn::Rebind<hwy::float16_t, D> d16;
    return hn::PromoteTo(D(), hn::BitCast(d16, x));
  }
};

struct WidenI8 {
  using Element = int8_t;
  static HWY_INLINE V Call(hn::Vec<hn::Rebind<int8_t, D>> x) {
    const hn::RebindToSigned<D> d32;
    return hn::ConvertTo(D(), hn::PromoteTo(d32, x));
  }
};

#if HWY_TARGET <= HWY_AVX3
// Products of pairs of bfloat16, which the machine adds up in float. Highway
// 1.0 does not know the instruction, nor do the options that this is compiled
// with: who calls it has asked the machine (HasPairDots()).
struct Pairs {
  using Few = uint16_t;
  using Operand = hn::Vec<hn::Repartition<uint16_t, D>>;
  static constexpr size_t kElements = 2 * hn::MaxLanes(D());
  static HWY_INLINE Operand LoadFew(const uint16_t* from) {
    return hn::LoadU(hn::Repartition<uint16_t, D>(), from);
  }
  static HWY_INLINE V MulAdd(Operand a, Operand b, V sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
};

struct StoredPairs {
  using Product = Pairs;
  using Element = uint16_t;
  using Tag = hn::Repartition<uint16_t, D>;
  static HWY_INLINE Pairs::Operand Load(const Element* from) {
    return hn::LoadU(Tag(), from);
  }
  static HWY_INLINE Pairs::Operand LoadRest(const Element* from, size_t count) {
    return LoadTail(Tag(), from, count, Element{0});
  }
};
#endif

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTN_ENGINE_TILE_STORED_ROWS_INL_H
