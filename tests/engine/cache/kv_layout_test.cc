#include "engine/cache/kv_layout.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/cache/stored_rows.h"

namespace attn {
namespace {

constexpr DType kStoredTypes[] = {DType::kF32, DType::kF16, DType::kBF16,
                                  DType::kI8};

TEST(KvLayoutTest, PartsFollowEachOtherAtMultiplesOf64) {
  for (const DType dtype : kStoredTypes) {
    for (const int64_t heads : {1, 3, 8}) {
      for (const int64_t k_dim : {1, 3, 64, 129}) {
        for (const int64_t v_dim : {1, 5, 64, 128}) {
          const KvLayout layout{heads, k_dim, v_dim, dtype};
          const auto size = static_cast<int64_t>(SizeOf(dtype));
          const int64_t k_bytes = Padded64(heads * 64 * k_dim * size);
          const int64_t v_bytes = Padded64(heads * 64 * v_dim * size);
          const int64_t scales =
              dtype == DType::kI8 ? Padded64(heads * 64 * 4) : 0;
          EXPECT_EQ(layout.v_offset(), k_bytes);
          EXPECT_EQ(layout.k_scale_offset(), k_bytes + v_bytes);
          EXPECT_EQ(layout.v_scale_offset(), k_bytes + v_bytes + scales);
          EXPECT_EQ(layout.block_bytes(), k_bytes + v_bytes + 2 * scales);
        }
      }
    }
  }
}

TEST(KvLayoutTest, EightHeadsOf128TakeWhatTheyTake) {
  EXPECT_EQ((KvLayout{8, 128, 128, DType::kF32}).block_bytes(), 512 << 10);
  EXPECT_EQ((KvLayout{8, 128, 128, DType::kBF16}).block_bytes(), 256 << 10);
  // 64 rows of 8 heads, each of 128 bytes and a scale, twice.
  EXPECT_EQ((KvLayout{8, 128, 128, DType::kI8}).block_bytes(),
            2 * 64 * 8 * (128 + 4));
}

TEST(KvLayoutTest, ABlockWithoutElementsTakesSomethingAllTheSame) {
  EXPECT_EQ((KvLayout{0, 128, 128, DType::kF32}).block_bytes(), 64);
  EXPECT_EQ((KvLayout{4, 0, 0, DType::kF16}).block_bytes(), 64);
}

TEST(KvLayoutTest, ExtentsThatOverflowAreTooLargeForAnyBudget) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const KvLayout& layout :
       {KvLayout{kMost, kMost, kMost, DType::kI8},
        KvLayout{int64_t{1} << 31, int64_t{1} << 31, 1, DType::kF32},
        KvLayout{1, 1, int64_t{1} << 55, DType::kF32},
        KvLayout{int64_t{1} << 58, 0, 0, DType::kI8}}) {
    EXPECT_GE(layout.block_bytes(), int64_t{1} << 60);
  }
}

}  // namespace
}  // namespace attn
