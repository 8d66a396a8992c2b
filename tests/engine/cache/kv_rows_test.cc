#include "engine/cache/kv_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/cache/stored_rows.h"
#include "tests/testing/small_float.h"

namespace attn {
namespace {

constexpr float kMost = std::numeric_limits<float>::max();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

// Rows of a block that were written, [rows, width].
struct WrittenRows {
  std::vector<std::byte> elements;
  std::vector<float> scales;
};

template <typename T>
WrittenRows Write(const std::vector<T>& from, DType from_dtype, int64_t width,
                  DType dtype, const PrepareKeys& prepare = {}) {
  const int64_t count = std::ssize(from) / width;
  WrittenRows rows;
  rows.elements.resize(from.size() * SizeOf(dtype));
  rows.scales.resize(static_cast<size_t>(count));
  std::vector<float> wide(static_cast<size_t>(WideRowFloats(width)));
  WriteKvRows({.data = reinterpret_cast<const std::byte*>(from.data()),
               .dtype = from_dtype,
               .row_stride = width,
               .element_stride = 1},
              count,
              {.data = rows.elements.data(),
               .dtype = dtype,
               .width = width,
               .scales = dtype == DType::kI8 ? rows.scales.data() : nullptr},
              prepare, {.kv_head = 3, .first = 1000}, wide);
  return rows;
}

std::vector<uint16_t> HalvesOf(const WrittenRows& rows) {
  std::vector<uint16_t> halves(rows.elements.size() / 2);
  std::memcpy(halves.data(), rows.elements.data(), rows.elements.size());
  return halves;
}

// Every number of a 16-bit type, every midpoint of two and its neighbours.
std::vector<float> HardNumbers(oracle::FloatFormat format) {
  std::vector<float> numbers = {kMost,     -kMost,     kLeast,   -kLeast,
                                kInfinity, -kInfinity, kNoNumber};
  for (uint32_t bits = 0; bits + 1 < (1U << 16); ++bits) {
    const double number = oracle::Decode(static_cast<uint16_t>(bits), format);
    const double next = oracle::Decode(static_cast<uint16_t>(bits + 1), format);
    // Half of a sum of such numbers is a float, if it is not below the least.
    const auto middle = static_cast<float>(number / 2 + next / 2);
    for (const float x :
         {static_cast<float>(number), middle, std::nextafter(middle, kMost),
          std::nextafter(middle, -kMost)}) {
      numbers.push_back(x);
    }
  }
  return numbers;
}

void ExpectSameHalf(uint16_t got, uint16_t want, oracle::FloatFormat format,
                    double of) {
  if (std::isnan(oracle::Decode(want, format))) {
    ASSERT_TRUE(std::isnan(oracle::Decode(got, format))) << of;
  } else {
    ASSERT_EQ(got, want) << of;
  }
}

struct SmallType {
  DType dtype;
  oracle::FloatFormat format;
};
const SmallType kSmallTypes[] = {{DType::kF16, oracle::kBinary16},
                                 {DType::kBF16, oracle::kBFloat16}};

TEST(KvRowsTest, FloatsAreRoundedToNearestEven) {
  for (const SmallType& type : kSmallTypes) {
    const std::vector<float> hard = HardNumbers(type.format);
    const std::vector<uint16_t> stored =
        HalvesOf(Write(hard, DType::kF32, 1, type.dtype));
    const std::vector<double> doubles(hard.begin(), hard.end());
    const std::vector<uint16_t> of_doubles =
        HalvesOf(Write(doubles, DType::kF64, 1, type.dtype));
    for (size_t i = 0; i < hard.size(); ++i) {
      const uint16_t want = oracle::Encode(doubles[i], type.format);
      ExpectSameHalf(stored[i], want, type.format, doubles[i]);
      ExpectSameHalf(of_doubles[i], want, type.format, doubles[i]);
    }
  }
}

TEST(KvRowsTest, EveryHalfIsKeptExactlyAsItselfAndAsAFloat) {
  std::vector<uint16_t> halves(1U << 16);
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i] = static_cast<uint16_t>(i);
  }
  for (const SmallType& type : kSmallTypes) {
    EXPECT_EQ(HalvesOf(Write(halves, type.dtype, 16, type.dtype)), halves);
    const WrittenRows floats = Write(halves, type.dtype, 16, DType::kF32);
    const std::vector<double> numbers =
        NumbersOf(floats.elements.data(), DType::kF32, 1 << 16);
    for (size_t i = 0; i < halves.size(); ++i) {
      const double want = oracle::Decode(halves[i], type.format);
      ASSERT_TRUE(numbers[i] == want ||
                  (std::isnan(numbers[i]) && std::isnan(want)))
          << i;
    }
  }
}

TEST(KvRowsTest, RowsThatNeedNoChangeKeepTheirBits) {
  // Signalling and quiet NaNs with payloads among them.
  std::vector<float> odd;
  for (const uint32_t bits : {0x7f800001U, 0xffc12345U, 0x80000000U, 0x1U}) {
    odd.push_back(std::bit_cast<float>(bits));
  }
  const WrittenRows rows = Write(odd, DType::kF32, 2, DType::kF32);
  EXPECT_EQ(std::memcmp(rows.elements.data(), odd.data(), rows.elements.size()),
            0);
}

TEST(KvRowsTest, DoublesBecomeTheNearestFloats) {
  const std::vector<double> doubles = {0.1,      1 + 0x1p-24, 1 + 0x3p-24,
                                       0x1p-150, 0x1.8p-149,  -1e300};
  const WrittenRows rows = Write(doubles, DType::kF64, 3, DType::kF32);
  // What no float can hold becomes the largest one.
  const std::vector<double> want = {
      static_cast<double>(0.1F),  1, 1 + 0x1p-22, 0, 0x1p-148,
      static_cast<double>(-kMost)};
  EXPECT_EQ(NumbersOf(rows.elements.data(), DType::kF32, 6), want);
}

// The rule of an I8 row that holds finite numbers.
void ExpectQuantized(const std::vector<float>& row, const WrittenRows& got,
                     size_t first, float scale) {
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::fabs(x));
  if (largest / 127 == 0) {
    ASSERT_EQ(scale, 1);
  } else if (std::isinf(largest / 127 * 127)) {
    ASSERT_EQ(scale, std::nextafter(largest / 127, 0.0F));
  } else {
    ASSERT_EQ(scale, largest / 127);
  }
  for (size_t i = 0; i < row.size(); ++i) {
    const int number = static_cast<int8_t>(got.elements[first + i]);
    ASSERT_GE(number, -127);
    // Exact in double, as both factors are short.
    const double error = std::fabs(static_cast<double>(row[i]) -
                                   number * static_cast<double>(scale));
    const double half = static_cast<double>(scale) / 2;
    if (std::abs(number) == 127 && std::fabs(row[i]) > 127 * scale) continue;
    ASSERT_LE(error, half) << row[i] << " of " << largest;
    ASSERT_TRUE(error < half || number % 2 == 0) << row[i] << " of " << largest;
    ASSERT_TRUE(std::isfinite(static_cast<float>(number) * scale));
  }
}

TEST(KvRowsTest, AnI8RowIsRoundedByItsOwnScale) {
  std::vector<std::vector<float>> rows = {
      // A scale of 1, and every tie.
      {127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 126.5F},
      {-127, 125.5F, -125.5F, 0.49999997F, -0.0F, 3.5000002F, 63.5F, 1},
      {0, 0, -0.0F, 0, 0, 0, 0, 0},
      {kMost, -kMost, 1, 0, kMost / 2, kMost / 254, kMost / 127, -1},
      {std::nextafter(kMost, 0.0F), kMost / 2, 0, 0, 0, 0, 0, 0},
      {kLeast, 0, -kLeast, 0, 0, 0, 0, 0},
      {190 * kLeast, 100 * kLeast, -190 * kLeast, 0, kLeast, 0, 0, 0},
      {0x1p-126F, 0x1p-127F, 0x1p-133F, 0, 0, 0, 0, -0x1p-126F}};
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 2000; ++i) {
    std::vector<float> row(8);
    const int exponent = static_cast<int>(random() % 240) - 120;
    for (float& x : row) x = std::ldexp(normal(random), exponent);
    rows.push_back(row);
  }
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  const WrittenRows written = Write(all, DType::kF32, 8, DType::kI8);
  for (size_t i = 0; i < rows.size(); ++i) {
    ExpectQuantized(rows[i], written, 8 * i, written.scales[i]);
  }
}

TEST(KvRowsTest, AnI8RowWithoutANumberReadsAsNaNAndNoOtherRowDoes) {
  const std::vector<float> rows = {1,          kNoNumber, 2, 3,          //
                                   1,          2,         3, kInfinity,  //
                                   4,          3,         2, 1,          //
                                   -kInfinity, 0,         0, 0};
  const WrittenRows written = Write(rows, DType::kF32, 4, DType::kI8);
  EXPECT_TRUE(std::isnan(written.scales[0]));
  EXPECT_TRUE(std::isnan(written.scales[1]));
  EXPECT_EQ(written.scales[2], 4.0F / 127);
  EXPECT_TRUE(std::isnan(written.scales[3]));
}

// Rows of one element, rows of which 63 fit the stack, and one that does not.
TEST(KvRowsTest, KeysArePreparedOnceEachInOrderAndThenRounded) {
  for (const int64_t width : {1, 2, 128, 129, 8192, 8193}) {
    const int64_t count = 64;
    std::vector<float> rows(static_cast<size_t>(count * width), 1.0F);
    int64_t expected_first = 1000;
    const auto prepare = [&](int64_t head, int64_t first, int64_t n,
                             float* prepared) {
      EXPECT_EQ(head, 3);
      EXPECT_EQ(first, expected_first);
      EXPECT_GE(n, 1);
      for (int64_t i = 0; i < n * width; ++i) {
        prepared[i] += static_cast<float>(first + i / width);
      }
      expected_first += n;
    };
    const WrittenRows written =
        Write(rows, DType::kF32, width, DType::kBF16, prepare);
    EXPECT_EQ(expected_first, 1000 + count);
    const std::vector<uint16_t> halves = HalvesOf(written);
    for (int64_t i = 0; i < count * width; ++i) {
      const double number = 1 + 1000 + static_cast<double>(i / width);
      ASSERT_EQ(halves[static_cast<size_t>(i)],
                oracle::Encode(number, oracle::kBFloat16));
    }
  }
}

TEST(KvRowsTest, RowsWithoutElementsHaveAScale) {
  float scales[2] = {0, 0};
  std::vector<float> wide;
  WriteKvRows({}, 2, {.dtype = DType::kI8, .width = 0, .scales = scales}, {},
              {}, wide);
  EXPECT_EQ(scales[0], 1);
  EXPECT_EQ(scales[1], 1);
}

}  // namespace
}  // namespace attn
