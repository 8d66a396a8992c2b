// Compiled once for each instruction set, as tile_products.cc.
#include "engine/tile/sparse_product.h"

#include <algorithm>
#include <array>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/sparse_product.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "engine/tile/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

constexpr size_t kLanes = hn::MaxLanes(D());
constexpr size_t kMaxVectors = 4;
// Elements of a row of a that are listed at a time.
constexpr size_t kListed = 512;

// A row's elements that are not 0, and the rows of b that they multiply.
struct Listed {
  HWY_ALIGN float values[kListed + kLanes];
  HWY_ALIGN int32_t rows[kListed + kLanes];
  size_t count = 0;
};

void List(const float* row, size_t count, Listed* list) {
  const D d;
  const hn::RebindToSigned<D> di;
  const V zero = hn::Zero(d);
  auto index = hn::Iota(di, 0);
  const auto step = hn::Set(di, static_cast<int32_t>(kLanes));
  list->count = 0;
  for (size_t i = 0; i < count; i += kLanes, index = hn::Add(index, step)) {
    const size_t rest = std::min(kLanes, count - i);
    const V x = rest == kLanes ? hn::LoadU(d, row + i)
                               : LoadTail(d, row + i, rest, 0.0F);
    // NaN counts, too.
    const auto counts = hn::Not(hn::Eq(x, zero));
    if (hn::AllFalse(d, counts)) continue;
    hn::StoreU(hn::Compress(x, counts), d, list->values + list->count);
    hn::StoreU(hn::Compress(index, hn::RebindMask(di, counts)), di,
               list->rows + list->count);
    list->count += hn::CountTrue(d, counts);
  }
}

// Never inlined: the compiler then keeps the sums in registers.
template <size_t kVectors>
HWY_NOINLINE void AddListed(const Listed& list, const float* b, size_t b_stride,
                            float* c) {
  const D d;
  V sums[kVectors];
  HWY_UNROLL(4)
  for (size_t v = 0; v < kVectors; ++v) sums[v] = hn::LoadU(d, c + v * kLanes);
  for (size_t i = 0; i < list.count; ++i) {
    const V factor = hn::Set(d, list.values[i]);
    const float* row = b + static_cast<size_t>(list.rows[i]) * b_stride;
    HWY_UNROLL(4)
    for (size_t v = 0; v < kVectors; ++v) {
      sums[v] = hn::MulAdd(factor, hn::LoadU(d, row + v * kLanes), sums[v]);
    }
  }
  HWY_UNROLL(4)
  for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, c + v * kLanes);
}

void AddRow(const Listed& list, const float* b, size_t b_stride, float* c,
            size_t columns) {
  size_t n = 0;
  for (; n + kMaxVectors * kLanes <= columns; n += kMaxVectors * kLanes) {
    AddListed<kMaxVectors>(list, b + n, b_stride, c + n);
  }
  for (; n < columns; n += kLanes) AddListed<1>(list, b + n, b_stride, c + n);
}

void AddSparseProductOf(const TileProduct& p) {
  const auto columns = static_cast<size_t>(RoundUpToColumnUnit(p.columns));
  const auto inner = static_cast<size_t>(p.inner);
  const auto b_stride = static_cast<size_t>(p.b_stride);
  Listed list;
  for (size_t k = 0; k < inner; k += kListed) {
    for (int64_t r = 0; r < p.rows; ++r) {
      List(p.a + r * p.a_stride + k, std::min(kListed, inner - k), &list);
      if (list.count == 0) continue;
      AddRow(list, p.b + k * b_stride, b_stride, p.c + r * p.c_stride, columns);
    }
  }
}

size_t CountNonZero(const float* row, size_t count) {
  const D d;
  const V zero = hn::Zero(d);
  size_t zeros = 0;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    zeros += hn::CountTrue(d, hn::Eq(hn::LoadU(d, row + i), zero));
  }
  for (; i < count; ++i) zeros += row[i] == 0 ? 1 : 0;
  return count - zeros;
}

bool IsSparseOf(const TileProduct& p) {
  const auto inner = static_cast<size_t>(p.inner);
  const size_t most = static_cast<size_t>(p.rows) * inner / 4;
  size_t found = 0;
  for (int64_t r = 0; r < p.rows; ++r) {
    found += CountNonZero(p.a + r * p.a_stride, inner);
    if (found > most) return false;
  }
  return true;
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(AddSparseProductOf);
HWY_EXPORT(IsSparseOf);

constexpr int64_t kRowsAtOnce = 64;
// What a product keeps of the sums so far.
constexpr auto kOnes = [] {
  std::array<float, kRowsAtOnce> ones{};
  ones.fill(1);
  return ones;
}();

}  // namespace

bool IsSparse(const TileProduct& product) {
  return HWY_DYNAMIC_DISPATCH(IsSparseOf)(product);
}

void AddSparseProduct(const TileProduct& product) {
  HWY_DYNAMIC_DISPATCH(AddSparseProductOf)(product);
}

void AddProduct(const TileProduct& product) {
  if (IsSparse(product)) return AddSparseProduct(product);
  TileProduct part = product;
  for (int64_t done = 0; done < product.rows; done += part.rows) {
    part.rows = std::min(product.rows - done, kRowsAtOnce);
    part.a = product.a + done * product.a_stride;
    part.c = product.c + done * product.c_stride;
    ScaleAndMultiplyTile(part, kOnes.data());
  }
}

}  // namespace attn
#endif  // HWY_ONCE
