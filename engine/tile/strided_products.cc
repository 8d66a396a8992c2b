// Compiled once for each instruction set. A block of the result stays in
// registers while `inner` runs; its rows take one element of the left operand
// at a time, in every lane.
#include "engine/tile/strided_products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/strided_products.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// 6 rows of 4 vectors, 4 of the right operand and one of the left fill the 32
// registers of AVX-512; elsewhere there are 16.
constexpr int kBlockRows = 6;
constexpr int kBlockVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
// More than any of the loops below has rounds.
#define ATTN_UNROLL _Pragma("GCC unroll 8")

// Where a block begins.
struct BlockAt {
  const float* left;
  const float* right;
  float* target;
};

struct Strides {
  size_t left_row;
  size_t left_inner;
  size_t right;
  size_t target;
};

// `blocks` blocks, one below the other. A function of its own: inlined, GCC 12
// keeps sums in memory.
template <int kRows, int kVectors>
HWY_NOINLINE void MultiplyBlocks(BlockAt at, const Strides strides,
                                 size_t inner, size_t blocks,
                                 const ProductTarget target) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  for (; blocks != 0; --blocks) {
    V sums[kRows][kVectors];
    ATTN_UNROLL for (auto& row : sums) {
      ATTN_UNROLL for (V& sum : row) { sum = hn::Zero(d); }
    }
    if (target.adds) {
      ATTN_UNROLL for (size_t r = 0; r < kRows; ++r) {
        ATTN_UNROLL for (size_t v = 0; v < kVectors; ++v) {
          hwy::Prefetch(at.target + r * strides.target + v * lanes);
        }
      }
    }
    const float* left_at = at.left;
    const float* right_at = at.right;
    for (size_t i = 0; i < inner; ++i) {
      V right[kVectors];
      ATTN_UNROLL for (int v = 0; v < kVectors; ++v) {
        right[v] = hn::LoadU(d, right_at + static_cast<size_t>(v) * lanes);
      }
      ATTN_UNROLL for (int r = 0; r < kRows; ++r) {
        const V left =
            hn::Set(d, left_at[static_cast<size_t>(r) * strides.left_row]);
        ATTN_UNROLL for (int v = 0; v < kVectors; ++v) {
          sums[r][v] = hn::MulAdd(left, right[v], sums[r][v]);
        }
      }
      left_at += strides.left_inner;
      right_at += strides.right;
    }
    const V factor = hn::Set(d, target.factor);
    float* row = at.target;
    ATTN_UNROLL for (int r = 0; r < kRows; ++r) {
      ATTN_UNROLL for (int v = 0; v < kVectors; ++v) {
        float* to = row + static_cast<size_t>(v) * lanes;
        const V old = target.adds ? hn::LoadU(d, to) : hn::Zero(d);
        hn::StoreU(hn::MulAdd(sums[r][v], factor, old), d, to);
      }
      row += strides.target;
    }
    at.left += kRows * strides.left_row;
    at.target += kRows * strides.target;
  }
}

using Blocks = void (*)(BlockAt, Strides, size_t, size_t, ProductTarget);

// By rows less one.
template <int kVectors>
constexpr Blocks kBlocks[kBlockRows] = {
    MultiplyBlocks<1, kVectors>, MultiplyBlocks<2, kVectors>,
    MultiplyBlocks<3, kVectors>, MultiplyBlocks<4, kVectors>,
    MultiplyBlocks<5, kVectors>, MultiplyBlocks<6, kVectors>};

// By vectors less one; those that do not fit the registers are not called.
constexpr const Blocks* kBlocksOf[] = {kBlocks<1>, kBlocks<2>,
                                       kBlocks<kBlockVectors == 4 ? 3 : 1>,
                                       kBlocks<kBlockVectors == 4 ? 4 : 1>};

void MultiplyAll(const ProductExtents& extents, const LeftOperand& left,
                 const RightOperand& right, const ProductTarget& target) {
  const Strides strides = {static_cast<size_t>(left.row_stride),
                           static_cast<size_t>(left.inner_stride),
                           static_cast<size_t>(right.stride),
                           static_cast<size_t>(target.stride)};
  const auto inner = static_cast<size_t>(extents.inner);
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t tail = extents.rows % kBlockRows;
  const int64_t tail_row = extents.rows - tail;
  for (int64_t column = 0; column < extents.columns;) {
    const int64_t vectors =
        HWY_MIN((extents.columns - column) / lanes, int64_t{kBlockVectors});
    const Blocks* blocks = kBlocksOf[vectors - 1];
    BlockAt at = {left.data, right.data + column, target.data + column};
    if (tail_row > 0) {
      blocks[kBlockRows - 1](at, strides, inner,
                             static_cast<size_t>(tail_row / kBlockRows),
                             target);
    }
    if (tail > 0) {
      at.left += tail_row * left.row_stride;
      at.target += tail_row * target.stride;
      blocks[tail - 1](at, strides, inner, 1, target);
    }
    column += vectors * lanes;
  }
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(MultiplyAll);

}  // namespace

void MultiplyStrided(const ProductExtents& extents, const LeftOperand& left,
                     const RightOperand& right, const ProductTarget& target) {
  HWY_DYNAMIC_DISPATCH(MultiplyAll)(extents, left, right, target);
}

}  // namespace attn
#endif  // HWY_ONCE
