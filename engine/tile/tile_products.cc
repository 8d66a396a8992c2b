// Compiled once for each instruction set; HWY_DYNAMIC_DISPATCH takes the best
// that the machine has.
#include "engine/tile/tile_products.h"

#include <algorithm>
#include <array>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/tile_products.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

constexpr size_t kLanes = hn::MaxLanes(D());
// Rows and vectors of c that are held in registers, beside as many vectors of
// b and one element of a: of 32 registers with vectors of 16 elements, of 16
// with those of 8 or 4.
constexpr size_t kTileRows = 6;
constexpr size_t kTileVectors = kLanes == 16 ? 4 : 2;
static_assert(kColumnUnit % kLanes == 0);
static_assert(kLanes == 16 || kColumnUnit % (kTileVectors * kLanes) == 0);
// Rows of b that stay in the first cache, with all columns of a register tile,
// while the rows of a go by.
constexpr size_t kInnerBlock = 512;

// A register tile: where its operands start.
struct Corner {
  const float* a;
  size_t a_stride;
  const float* b;
  size_t b_stride;
  float* c;
  size_t c_stride;
  size_t inner;
  // Of the tile's first row; null: c starts from 0.
  const float* factors;
};

// Never inlined, and one instance for each way to start: the compiler then
// keeps the whole tile in registers.
template <size_t kRows, size_t kVectors, bool kScales>
HWY_NOINLINE void MultiplyRegisters(const Corner& corner) {
  const D d;
  V c[kRows][kVectors];
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (size_t v = 0; v < kVectors; ++v) {
      if constexpr (kScales) {
        c[r][v] =
            hn::Mul(hn::Set(d, corner.factors[r]),
                    hn::LoadU(d, corner.c + r * corner.c_stride + v * kLanes));
      } else {
        c[r][v] = hn::Zero(d);
      }
    }
  }
  const float* HWY_RESTRICT b = corner.b;
  const float* HWY_RESTRICT a = corner.a;
  const size_t a_stride = corner.a_stride;
  const size_t b_stride = corner.b_stride;
  for (size_t k = 0; k < corner.inner; ++k) {
    V bk[kVectors];
    HWY_UNROLL(8)
    for (size_t v = 0; v < kVectors; ++v) bk[v] = hn::LoadU(d, b + v * kLanes);
    HWY_UNROLL(8)
    for (size_t r = 0; r < kRows; ++r) {
      const V ar = hn::Set(d, a[r * a_stride + k]);
      HWY_UNROLL(8)
      for (size_t v = 0; v < kVectors; ++v) {
        c[r][v] = hn::MulAdd(ar, bk[v], c[r][v]);
      }
    }
    b += b_stride;
  }
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(c[r][v], d, corner.c + r * corner.c_stride + v * kLanes);
    }
  }
}

// All rows of some vectors of c.
template <size_t kVectors, bool kScales>
void MultiplyColumns(Corner corner, size_t rows) {
  for (; rows >= kTileRows; rows -= kTileRows) {
    MultiplyRegisters<kTileRows, kVectors, kScales>(corner);
    corner.a += kTileRows * corner.a_stride;
    corner.c += kTileRows * corner.c_stride;
    if (kScales) corner.factors += kTileRows;
  }
  switch (rows) {
    case 5:
      return MultiplyRegisters<5, kVectors, kScales>(corner);
    case 4:
      return MultiplyRegisters<4, kVectors, kScales>(corner);
    case 3:
      return MultiplyRegisters<3, kVectors, kScales>(corner);
    case 2:
      return MultiplyRegisters<2, kVectors, kScales>(corner);
    case 1:
      return MultiplyRegisters<1, kVectors, kScales>(corner);
    default:
      return;
  }
}

template <bool kScales>
void MultiplyVectors(const Corner& corner, size_t rows, size_t vectors) {
  switch (vectors) {
    case 1:
      return MultiplyColumns<1, kScales>(corner, rows);
    case 2:
      return MultiplyColumns<2, kScales>(corner, rows);
    case 3:
      return MultiplyColumns<std::min<size_t>(3, kTileVectors), kScales>(corner,
                                                                         rows);
    default:
      return MultiplyColumns<kTileVectors, kScales>(corner, rows);
  }
}

// factors[row] = 1, for the blocks of b after the first.
constexpr size_t kMaxRows = 64;
constexpr auto kOnes = [] {
  std::array<float, kMaxRows> ones{};
  ones.fill(1);
  return ones;
}();

void MultiplyBlock(const TileProduct& p, const float* factors) {
  const auto columns = static_cast<size_t>(RoundUpToColumnUnit(p.columns));
  const auto inner = static_cast<size_t>(p.inner);
  for (size_t n = 0; n < columns; n += kTileVectors * kLanes) {
    const size_t vectors = std::min((columns - n) / kLanes, kTileVectors);
    size_t k = 0;
    do {
      const size_t block = std::min(inner - k, kInnerBlock);
      const Corner corner{p.a + k,
                          static_cast<size_t>(p.a_stride),
                          p.b + k * static_cast<size_t>(p.b_stride) + n,
                          static_cast<size_t>(p.b_stride),
                          p.c + n,
                          static_cast<size_t>(p.c_stride),
                          block,
                          k == 0 ? factors : kOnes.data()};
      const auto rows = static_cast<size_t>(p.rows);
      if (corner.factors == nullptr) {
        MultiplyVectors<false>(corner, rows, vectors);
      } else {
        MultiplyVectors<true>(corner, rows, vectors);
      }
      k += block;
    } while (k < inner);
  }
}

void MultiplyTileOf(const TileProduct& product, const float* factors) {
  const TileProduct& p = product;
  for (int64_t row = 0; row < p.rows; row += kMaxRows) {
    TileProduct part = p;
    part.rows = std::min<int64_t>(p.rows - row, kMaxRows);
    part.a += row * p.a_stride;
    part.c += row * p.c_stride;
    MultiplyBlock(part, factors == nullptr ? nullptr : factors + row);
  }
}

#if HWY_TARGET == HWY_SCALAR
constexpr size_t kSquare = 1;

HWY_INLINE void PackSquare(const float* rows, size_t /*stride*/, float* panel) {
  *panel = *rows;
}
#else
constexpr size_t kSquare = 4;

// So many keys and as many elements, turned.
HWY_INLINE void PackSquare(const float* rows, size_t stride, float* panel) {
  const hn::FixedTag<float, kSquare> d4;
  const hn::RepartitionToWide<decltype(d4)> d2;
  const auto wide = [d2](auto v) { return hn::BitCast(d2, v); };
  const auto row0 = hn::LoadU(d4, rows);
  const auto row1 = hn::LoadU(d4, rows + stride);
  const auto row2 = hn::LoadU(d4, rows + 2 * stride);
  const auto row3 = hn::LoadU(d4, rows + 3 * stride);
  const auto low01 = wide(hn::InterleaveLower(d4, row0, row1));
  const auto low23 = wide(hn::InterleaveLower(d4, row2, row3));
  const auto high01 = wide(hn::InterleaveUpper(d4, row0, row1));
  const auto high23 = wide(hn::InterleaveUpper(d4, row2, row3));
  constexpr auto kKeys = static_cast<size_t>(kPanelKeys);
  const auto put = [d4, panel](size_t element, auto keys) {
    hn::StoreU(hn::BitCast(d4, keys), d4, panel + element * kKeys);
  };
  put(0, hn::InterleaveLower(d2, low01, low23));
  put(1, hn::InterleaveUpper(d2, low01, low23));
  put(2, hn::InterleaveLower(d2, high01, high23));
  put(3, hn::InterleaveUpper(d2, high01, high23));
}
#endif

void PackPanelOf(const float* rows, size_t stride, size_t count, size_t depth,
                 float* panel) {
  constexpr auto kKeys = static_cast<size_t>(kPanelKeys);
  const auto units =
      static_cast<size_t>(RoundUpToColumnUnit(static_cast<int64_t>(count)));
  for (size_t e = 0; e < depth && count < units; ++e) {
    std::fill(panel + e * kKeys + count, panel + e * kKeys + units, 0.0F);
  }
  const size_t whole_keys = count / kSquare * kSquare;
  const size_t whole_depth = depth / kSquare * kSquare;
  for (size_t key = 0; key < whole_keys; key += kSquare) {
    for (size_t e = 0; e < whole_depth; e += kSquare) {
      PackSquare(rows + key * stride + e, stride, panel + e * kKeys + key);
    }
  }
  for (size_t key = 0; key < count; ++key) {
    const size_t begin = key < whole_keys ? whole_depth : 0;
    for (size_t e = begin; e < depth; ++e) {
      panel[e * kKeys + key] = rows[key * stride + e];
    }
  }
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(MultiplyTileOf);
HWY_EXPORT(PackPanelOf);

}  // namespace

void MultiplyTile(const TileProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyTileOf)(product, nullptr);
}

void ScaleAndMultiplyTile(const TileProduct& product, const float* factors) {
  HWY_DYNAMIC_DISPATCH(MultiplyTileOf)(product, factors);
}

void PackPanel(const float* rows, int64_t stride, int64_t count, int64_t depth,
               float* panel) {
  HWY_DYNAMIC_DISPATCH(PackPanelOf)
  (rows, static_cast<size_t>(stride), static_cast<size_t>(count),
   static_cast<size_t>(depth), panel);
}

}  // namespace attn
#endif  // HWY_ONCE
