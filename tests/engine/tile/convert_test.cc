#include "engine/tile/convert.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/core/half.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

constexpr size_t kAllHalves = 1U << 16;

class ConvertTest : public OnEveryTarget {};
ATTN_ON_EVERY_TARGET(ConvertTest);

std::vector<uint16_t> AllHalves() {
  std::vector<uint16_t> all(kAllHalves);
  for (size_t i = 0; i < kAllHalves; ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

// Bit patterns of floats: random ones, and those at and around every
// binary16 and bfloat16 number and every midpoint between two.
std::vector<float> FloatsWorthTrying() {
  std::mt19937 random(5);
  std::vector<float> floats;
  floats.reserve(200000);
  for (int i = 0; i < 200000; ++i) {
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  for (size_t half = 0; half < kAllHalves; ++half) {
    const auto bits = static_cast<uint16_t>(half);
    for (const float x : {FromF16(bits), FromBF16(bits)}) {
      const auto center = std::bit_cast<uint32_t>(x);
      for (const uint32_t step :
           {0x0U, 0xfffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U}) {
        floats.push_back(std::bit_cast<float>(center + step));
      }
    }
  }
  return floats;
}

TEST_P(ConvertTest, EveryHalfWidensToTheBitsOfTheScalarConversion) {
  const std::vector<uint16_t> halves = AllHalves();
  std::vector<float> f16(kAllHalves);
  std::vector<float> bf16(kAllHalves);
  F16ToFloat(halves.data(), f16.data(), kAllHalves);
  BF16ToFloat(halves.data(), bf16.data(), kAllHalves);
  for (size_t i = 0; i < kAllHalves; ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(f16[i]),
              std::bit_cast<uint32_t>(FromF16(halves[i])));
    ASSERT_EQ(std::bit_cast<uint32_t>(bf16[i]),
              std::bit_cast<uint32_t>(FromBF16(halves[i])));
  }
}

TEST_P(ConvertTest, FloatsNarrowToTheBitsOfTheScalarConversion) {
  const std::vector<float> floats = FloatsWorthTrying();
  const auto count = static_cast<int64_t>(floats.size());
  std::vector<uint16_t> f16(floats.size());
  std::vector<uint16_t> bf16(floats.size());
  FloatToF16(floats.data(), f16.data(), count);
  FloatToBF16(floats.data(), bf16.data(), count);
  for (size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(f16[i], ToF16(floats[i])) << std::hexfloat << floats[i];
    ASSERT_EQ(bf16[i], ToBF16(floats[i])) << std::hexfloat << floats[i];
  }
}

TEST_P(ConvertTest, FiniteHalvesHaveTheValueOfTheirFields) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const int exponent = static_cast<int>(bits >> 10);
    const int mantissa = static_cast<int>(bits & 0x3ffU);
    const double want = exponent == 0
                            ? std::ldexp(mantissa, -24)
                            : std::ldexp(1024 + mantissa, exponent - 25);
    float got = 0;
    F16ToFloat(&half, &got, 1);
    ASSERT_EQ(static_cast<double>(got), want);
  }
}

TEST_P(ConvertTest, TailsOfEveryLengthStayWithinTheirRow) {
  const std::vector<uint16_t> ones(70, ToF16(1));
  const std::vector<float> twos(70, 2);
  for (size_t count = 0; count <= 70; ++count) {
    std::vector<float> wide(110, -1);
    std::vector<uint16_t> narrow(110, 9);
    F16ToFloat(ones.data(), wide.data(), static_cast<int64_t>(count));
    FloatToBF16(twos.data(), narrow.data(), static_cast<int64_t>(count));
    for (size_t i = 0; i < wide.size(); ++i) {
      ASSERT_EQ(wide[i], i < count ? 1.0F : -1.0F);
      ASSERT_EQ(narrow[i], i < count ? ToBF16(2) : 9);
    }
  }
}

template <typename T>
const std::byte* Bytes(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

// Elements 0, 1, 2, ... of the type, picked with a stride.
template <typename T>
void ExpectStridedLoads(DType dtype, const std::vector<T>& ramp) {
  for (const int64_t stride : {0, 1, 3}) {
    float narrow[9];
    double wide[9];
    LoadElements(Bytes(ramp), dtype, stride, 9, narrow);
    LoadElements(Bytes(ramp), dtype, stride, 9, wide);
    for (int64_t i = 0; i < 9; ++i) {
      EXPECT_EQ(narrow[i], static_cast<float>(i * stride));
      EXPECT_EQ(wide[i], static_cast<double>(i * stride));
    }
  }
}

TEST(LoadElements, ReadsEveryTypeWithEveryStride) {
  std::vector<float> f32(27);
  std::vector<double> f64(27);
  std::vector<uint16_t> f16(27);
  std::vector<uint16_t> bf16(27);
  for (size_t i = 0; i < 27; ++i) {
    f32[i] = static_cast<float>(i);
    f64[i] = f32[i];
    f16[i] = ToF16(f32[i]);
    bf16[i] = ToBF16(f32[i]);
  }
  ExpectStridedLoads(DType::kF32, f32);
  ExpectStridedLoads(DType::kF64, f64);
  ExpectStridedLoads(DType::kF16, f16);
  ExpectStridedLoads(DType::kBF16, bf16);
}

TEST(LoadElements, AFiniteDoubleNeverTurnsIntoAnInfinity) {
  constexpr double huge = std::numeric_limits<double>::max();
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {-huge, huge, -inf, 0.1};
  float narrow[4];
  LoadElements(Bytes(values), DType::kF64, 1, 4, narrow);
  EXPECT_THAT(narrow, testing::ElementsAre(
                          -std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::max(),
                          -std::numeric_limits<float>::infinity(), 0.1F));
  double wide[4];
  LoadElements(Bytes(values), DType::kF64, 1, 4, wide);
  EXPECT_THAT(wide, testing::ElementsAreArray(values));
}

TEST(StoreElements, WritesEveryTypeFromBothPrecisions) {
  std::vector<float> floats(300);
  std::vector<double> doubles(300);
  for (size_t i = 0; i < 300; ++i) {
    floats[i] = static_cast<float>(i) / 7;
    doubles[i] = static_cast<double>(i) / 7;
  }
  std::vector<uint16_t> half(300);
  auto* half_bytes = reinterpret_cast<std::byte*>(half.data());
  std::vector<double> f64(300);
  StoreElements(floats.data(), 300, DType::kF16, half_bytes);
  EXPECT_EQ(half[299], ToF16(floats[299]));
  StoreElements(doubles.data(), 300, DType::kBF16, half_bytes);
  EXPECT_EQ(half[299], ToBF16(floats[299]));
  StoreElements(doubles.data(), 300, DType::kF64,
                reinterpret_cast<std::byte*>(f64.data()));
  EXPECT_EQ(f64, doubles);
  StoreElements(floats.data(), 300, DType::kF64,
                reinterpret_cast<std::byte*>(f64.data()));
  EXPECT_EQ(f64[299], static_cast<double>(floats[299]));
  std::vector<float> f32(300);
  StoreElements(doubles.data(), 300, DType::kF32,
                reinterpret_cast<std::byte*>(f32.data()));
  EXPECT_EQ(f32, floats);
}

}  // namespace
}  // namespace attn
