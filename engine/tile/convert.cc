// Compiled once for each instruction set, as row_math.cc.
#include "engine/tile/convert.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/core/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/convert.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "engine/tile/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

using DF = hn::ScalableTag<float>;
using D32 = hn::RebindToUnsigned<DF>;
using D16 = hn::Rebind<uint16_t, D32>;
using DI = hn::RebindToSigned<DF>;
using V32 = hn::Vec<D32>;

HWY_INLINE V32 Bits(uint32_t bits) { return hn::Set(D32(), bits); }

HWY_INLINE hn::Mask<D32> Below(V32 a, uint32_t limit) {
  // Magnitudes have no sign bit, so that signed comparison serves.
  const DI di;
  return hn::RebindMask(
      D32(), hn::Lt(hn::BitCast(di, a), hn::BitCast(di, Bits(limit))));
}

HWY_INLINE V32 WidenBF16(V32 bits) { return hn::ShiftLeft<16>(bits); }

// The steps of FromF16() and ToF16() in engine/core/half.cc.
HWY_INLINE V32 WidenF16(V32 bits) {
  const DF df;
  const V32 sign = hn::ShiftLeft<16>(hn::And(bits, Bits(0x8000U)));
  const V32 magnitude = hn::And(bits, Bits(0x7fffU));
  const V32 shifted = hn::ShiftLeft<13>(magnitude);
  const V32 normal = hn::Add(shifted, Bits(112U << 23));
  const V32 special = hn::Or(shifted, Bits(0x7f800000U));
  const auto count = hn::ConvertTo(df, hn::BitCast(DI(), magnitude));
  const float ulp = 1.0F / 16777216;  // of a subnormal, 2^-24
  const V32 subnormal = hn::BitCast(D32(), hn::Mul(count, hn::Set(df, ulp)));
  const V32 finite =
      hn::IfThenElse(Below(magnitude, 0x0400U), subnormal, normal);
  return hn::Or(sign,
                hn::IfThenElse(Below(magnitude, 0x7c00U), finite, special));
}

HWY_INLINE V32 NarrowBF16(V32 bits) {
  const V32 quiet = hn::Or(hn::ShiftRight<16>(bits), Bits(0x40U));
  const V32 odd = hn::And(hn::ShiftRight<16>(bits), Bits(1));
  const V32 rounding = hn::Add(odd, Bits(0x7fffU));
  const V32 rounded = hn::ShiftRight<16>(hn::Add(bits, rounding));
  const V32 magnitude = hn::And(bits, Bits(0x7fffffffU));
  return hn::IfThenElse(Below(magnitude, 0x7f800001U), rounded, quiet);
}

HWY_INLINE V32 NarrowF16(V32 bits) {
  const DF df;
  const V32 magnitude = hn::And(bits, Bits(0x7fffffffU));
  const V32 sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
  const V32 mantissa = hn::ShiftRight<13>(magnitude);
  const V32 quiet = hn::Or(Bits(0x7e00U), hn::And(mantissa, Bits(0x3ffU)));
  const auto aligned = hn::Add(hn::BitCast(df, magnitude), hn::Set(df, 0.5F));
  const V32 subnormal = hn::Sub(hn::BitCast(D32(), aligned), Bits(0x3f000000U));
  const V32 odd = hn::And(mantissa, Bits(1));
  const V32 rebiased = hn::Sub(magnitude, Bits((112U << 23) - 0xfffU));
  const V32 normal = hn::ShiftRight<13>(hn::Add(rebiased, odd));
  V32 result = hn::IfThenElse(Below(magnitude, 0x38800000U), subnormal, normal);
  result = hn::IfThenElse(Below(magnitude, 0x477ff000U), result, Bits(0x7c00U));
  result = hn::IfThenElse(Below(magnitude, 0x7f800001U), result, quiet);
  return hn::Or(sign, result);
}

template <class Op>
HWY_INLINE void Widen(const uint16_t* from, float* to, size_t count, Op op) {
  const D16 d16;
  const D32 d32;
  const DF df;
  const size_t lanes = hn::Lanes(df);
  const auto widen = [&](hn::Vec<D16> v) {
    return hn::BitCast(df, op(hn::PromoteTo(d32, v)));
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(widen(hn::LoadU(d16, from + i)), df, to + i);
  }
  if (i == count) return;
  const auto tail = LoadTail(d16, from + i, count - i, uint16_t{0});
  StoreTail(widen(tail), df, to + i, count - i);
}

template <class Op>
HWY_INLINE void Narrow(const float* from, uint16_t* to, size_t count, Op op) {
  const D16 d16;
  const DF df;
  const size_t lanes = hn::Lanes(df);
  const auto narrow = [&](hn::Vec<DF> v) {
    return hn::DemoteTo(d16, hn::BitCast(DI(), op(hn::BitCast(D32(), v))));
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(narrow(hn::LoadU(df, from + i)), d16, to + i);
  }
  if (i == count) return;
  StoreTail(narrow(LoadTail(df, from + i, count - i, 0.0F)), d16, to + i,
            count - i);
}

void BF16ToFloatOf(const uint16_t* from, float* to, size_t count) {
  Widen(from, to, count, [](V32 v) { return WidenBF16(v); });
}

void F16ToFloatOf(const uint16_t* from, float* to, size_t count) {
  Widen(from, to, count, [](V32 v) { return WidenF16(v); });
}

void FloatToBF16Of(const float* from, uint16_t* to, size_t count) {
  Narrow(from, to, count, [](V32 v) { return NarrowBF16(v); });
}

void FloatToF16Of(const float* from, uint16_t* to, size_t count) {
  Narrow(from, to, count, [](V32 v) { return NarrowF16(v); });
}

void FloatToDoubleOf(const float* from, double* to, size_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(narrow, from + i)), d, to + i);
  }
  for (; i < count; ++i) to[i] = static_cast<double>(from[i]);
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(BF16ToFloatOf);
HWY_EXPORT(F16ToFloatOf);
HWY_EXPORT(FloatToBF16Of);
HWY_EXPORT(FloatToF16Of);
HWY_EXPORT(FloatToDoubleOf);

// Elements converted at a time on their way through the stack.
constexpr int64_t kChunk = 256;

template <typename From>
From ReadAt(const std::byte* from, int64_t index) {
  From value;
  std::memcpy(&value, from + index * static_cast<int64_t>(sizeof(From)),
              sizeof(From));
  return value;
}

float SaturatedFloat(double value) {
  const auto narrow = static_cast<float>(value);
  if (std::isfinite(narrow) || !std::isfinite(value)) return narrow;
  return std::copysign(std::numeric_limits<float>::max(), narrow);
}

// One element as a float or a double.
template <typename To>
To LoadOne(const std::byte* from, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF16:
      return static_cast<To>(FromF16(ReadAt<uint16_t>(from, index)));
    case DType::kBF16:
      return static_cast<To>(FromBF16(ReadAt<uint16_t>(from, index)));
    case DType::kI8:
      return static_cast<To>(ReadAt<int8_t>(from, index));
    case DType::kF64:
      if constexpr (sizeof(To) == sizeof(double)) {
        return ReadAt<double>(from, index);
      } else {
        return SaturatedFloat(ReadAt<double>(from, index));
      }
    default:
      return static_cast<To>(ReadAt<float>(from, index));
  }
}

template <typename To>
void LoadStrided(const std::byte* from, DType dtype, int64_t stride,
                 int64_t count, To* to) {
  if (stride == 0 && count > 0) {
    std::fill_n(to, count, LoadOne<To>(from, dtype, 0));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    to[i] = LoadOne<To>(from, dtype, i * stride);
  }
}

// Side by side: a loop that compilers turn into vectors.
template <typename From, typename To>
void LoadContiguous(const std::byte* from, int64_t count, To* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<To>(ReadAt<From>(from, i));
  }
}

// Whether elements may be read as what they are: tensors from outside may lie
// at any address.
bool IsAligned(const std::byte* from, DType dtype) {
  return reinterpret_cast<uintptr_t>(from) % SizeOf(dtype) == 0;
}

const uint16_t* Halves(const std::byte* from) {
  return reinterpret_cast<const uint16_t*>(from);
}

}  // namespace

void BF16ToFloat(const uint16_t* from, float* to, int64_t count) {
  HWY_DYNAMIC_DISPATCH(BF16ToFloatOf)(from, to, static_cast<size_t>(count));
}

void F16ToFloat(const uint16_t* from, float* to, int64_t count) {
  HWY_DYNAMIC_DISPATCH(F16ToFloatOf)(from, to, static_cast<size_t>(count));
}

void FloatToBF16(const float* from, uint16_t* to, int64_t count) {
  HWY_DYNAMIC_DISPATCH(FloatToBF16Of)(from, to, static_cast<size_t>(count));
}

void FloatToF16(const float* from, uint16_t* to, int64_t count) {
  HWY_DYNAMIC_DISPATCH(FloatToF16Of)(from, to, static_cast<size_t>(count));
}

void LoadElements(const std::byte* from, DType dtype, int64_t stride,
                  int64_t count, float* to) {
  if (count <= 0) return;
  const bool contiguous = stride == 1 && IsAligned(from, dtype);
  if (contiguous && dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  } else if (contiguous && dtype == DType::kBF16) {
    BF16ToFloat(Halves(from), to, count);
  } else if (contiguous && dtype == DType::kF16) {
    F16ToFloat(Halves(from), to, count);
  } else if (contiguous && dtype == DType::kI8) {
    LoadContiguous<int8_t>(from, count, to);
  } else {
    LoadStrided(from, dtype, stride, count, to);
  }
}

void LoadElements(const std::byte* from, DType dtype, int64_t stride,
                  int64_t count, double* to) {
  if (count <= 0) return;
  if (stride != 1 || !IsAligned(from, dtype)) {
    return LoadStrided(from, dtype, stride, count, to);
  }
  switch (dtype) {
    case DType::kF32:
      HWY_DYNAMIC_DISPATCH(FloatToDoubleOf)
      (reinterpret_cast<const float*>(from), to, static_cast<size_t>(count));
      return;
    case DType::kI8:
      return LoadContiguous<int8_t>(from, count, to);
    case DType::kF64:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(double));
      return;
    default:
      break;
  }
  float wide[kChunk];
  const auto bytes = static_cast<int64_t>(SizeOf(dtype));
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t n = std::min(kChunk, count - i);
    LoadElements(from + i * bytes, dtype, 1, n, wide);
    std::copy_n(wide, n, to + i);
  }
}

void StoreElements(const float* from, int64_t count, DType dtype,
                   std::byte* to) {
  if (count <= 0) return;
  if (dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  } else if (dtype == DType::kBF16) {
    FloatToBF16(from, reinterpret_cast<uint16_t*>(to), count);
  } else if (dtype == DType::kF16) {
    FloatToF16(from, reinterpret_cast<uint16_t*>(to), count);
  } else {
    std::copy_n(from, count, reinterpret_cast<double*>(to));
  }
}

void StoreElements(const double* from, int64_t count, DType dtype,
                   std::byte* to) {
  if (count <= 0) return;
  if (dtype == DType::kF64) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(double));
    return;
  }
  float narrow[kChunk];
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t n = std::min(kChunk, count - i);
    std::transform(from + i, from + i + n, narrow,
                   [](double x) { return static_cast<float>(x); });
    StoreElements(narrow, n, dtype,
                  to + i * static_cast<int64_t>(SizeOf(dtype)));
  }
}

}  // namespace attn
#endif  // HWY_ONCE
