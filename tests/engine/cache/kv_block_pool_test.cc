#include "engine/cache/kv_block_pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMebi = int64_t{1} << 20;

absl::StatusCode CodeOf(KvBlockPool& pool, int64_t bytes) {
  return pool.Take(bytes).status().code();
}

TEST(KvBlockPoolTest, EverySizeIsAlignedAndWritable) {
  KvBlockPool pool(64 * kMebi);
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{4095}, int64_t{4096},
        kMebi / 4 - 64, kMebi / 4, kMebi + 64, 9 * kMebi}) {
    const KvBlock block = pool.Take(bytes).value();
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % 64, 0U) << bytes;
    std::memset(block.get(), 0x5a, static_cast<size_t>(bytes));
  }
}

TEST(KvBlockPoolTest, ABlockCountsOnceUntilTheLastLetsItGo) {
  KvBlockPool pool(kMebi);
  for (const int64_t bytes : {int64_t{640}, kMebi / 2 + 64}) {
    KvBlock first = pool.Take(bytes).value();
    KvBlock second = first;
    EXPECT_EQ(pool.used_bytes(), bytes);
    first.reset();
    EXPECT_EQ(pool.used_bytes(), bytes);
    second.reset();
    EXPECT_EQ(pool.used_bytes(), 0);
  }
}

TEST(KvBlockPoolTest, TheBudgetIsExactToTheByte) {
  KvBlockPool pool(kMebi);
  KvBlock large = pool.Take(kMebi / 2 + 1).value();
  const KvBlock small = pool.Take(1000).value();
  const int64_t rest = kMebi / 2 - 1001;
  EXPECT_EQ(CodeOf(pool, rest + 1), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.used_bytes(), kMebi - rest);
  {
    const KvBlock last = pool.Take(rest).value();
    EXPECT_EQ(CodeOf(pool, 1), absl::StatusCode::kResourceExhausted);
  }
  large.reset();
  EXPECT_EQ(CodeOf(pool, kMebi - 1000), absl::StatusCode::kOk);
}

TEST(KvBlockPoolTest, ARefusalSaysWhatWasAskedForAndWhatThereIs) {
  KvBlockPool pool(1000);
  const KvBlock block = pool.Take(640).value();
  const absl::Status status = pool.TakeMany(128, 3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("got 3 blocks of 128 bytes"));
  EXPECT_THAT(status.message(), HasSubstr("at most 360"));
}

TEST(KvBlockPoolTest, AChargeCountsUntilItsLastCopyGoes) {
  KvBlockPool pool(1000);
  auto charge = pool.Charge(600);
  ASSERT_TRUE(charge.ok()) << charge.status();
  EXPECT_EQ(pool.used_bytes(), 600);
  EXPECT_EQ(pool.Charge(401).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.Take(512).status().code(),
            absl::StatusCode::kResourceExhausted);
  KvCharge copy = *charge;
  charge->reset();
  EXPECT_EQ(pool.used_bytes(), 600);
  copy.reset();
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_TRUE(pool.Charge(1000).ok());
}

TEST(KvBlockPoolTest, ManyAreTakenOrNone) {
  KvBlockPool pool(1000);
  EXPECT_EQ(pool.TakeMany(100, 10).value().size(), 10U);
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_FALSE(pool.TakeMany(100, 11).ok());
  EXPECT_FALSE(pool.TakeMany(int64_t{1} << 62, 4).ok()) << "overflows to 0";
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_EQ(CodeOf(pool, 1000), absl::StatusCode::kOk);
}

TEST(KvBlockPoolTest, WhatTheSystemDoesNotHaveIsRefusedAndNotCounted) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's allocator ends the process instead";
#endif
  KvBlockPool pool(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(CodeOf(pool, int64_t{1} << 60),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.used_bytes(), 0);
}

TEST(KvBlockPoolTest, BlocksOutliveThePool) {
  std::vector<KvBlock> blocks;
  {
    KvBlockPool pool(4 * kMebi);
    blocks.push_back(pool.Take(640).value());
    blocks.push_back(pool.Take(kMebi).value());
  }
  std::memset(blocks[0].get(), 1, 640);
  std::memset(blocks[1].get(), 1, static_cast<size_t>(kMebi));
  blocks.clear();
}

TEST(KvBlockPoolTest, AnEighthOfTheBudgetIsKeptWhileIdle) {
  KvBlockPool pool(64 * kMebi);
  std::mt19937 random(1);
  std::vector<KvBlock> blocks;
  while (pool.used_bytes() <= 60 * kMebi) {
    blocks.push_back(pool.Take((1 + random() % 8) * kMebi / 2).value());
    EXPECT_LE(pool.idle_bytes(), 8 * kMebi);
  }
  std::shuffle(blocks.begin(), blocks.end(), random);
  while (!blocks.empty()) {
    blocks.pop_back();
    EXPECT_LE(pool.idle_bytes(), 8 * kMebi);
  }
#if !defined(__SANITIZE_ADDRESS__)
  // The largest is 4 MiB: as much is of no use at most.
  EXPECT_GT(pool.idle_bytes(), 4 * kMebi);
#endif
  pool.Trim();
  EXPECT_EQ(pool.idle_bytes(), 0);
}

TEST(KvBlockPoolTest, ALargeBlockIsUsedAgain) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "under the address sanitizer all is the heap's";
#endif
  KvBlockPool pool(64 * kMebi);
  // However much else is in use.
  const KvBlock other = pool.Take(40 * kMebi).value();
  KvBlock block = pool.Take(kMebi).value();
  const std::byte* const address = block.get();
  block.reset();
  EXPECT_EQ(pool.idle_bytes(), kMebi);
  EXPECT_EQ(pool.Take(kMebi).value().get(), address);
  block = pool.Take(kMebi).value();
  EXPECT_EQ(block.get(), address);
  EXPECT_EQ(pool.idle_bytes(), 0);
}

// Each thread writes its own mark over what it holds: a block that two hold at
// once would show the mark of the other.
TEST(KvBlockPoolTest, NoBlockIsHeldByTwoThreadsAndNoByteIsLost) {
  KvBlockPool pool(4 * kMebi);
  std::vector<std::thread> threads;
  for (unsigned mark = 1; mark <= 4; ++mark) {
    threads.emplace_back([&pool, mark] {
      std::minstd_rand random(mark);
      for (int i = 0; i < 300; ++i) {
        const auto bytes = static_cast<int64_t>(64 << random() % 15);
        const absl::StatusOr<KvBlock> block = pool.Take(bytes);
        if (!block.ok()) continue;
        std::byte* const first = block->get();
        std::byte* const last = first + bytes - 1;
        *first = *last = std::byte(mark);
        std::this_thread::yield();
        EXPECT_EQ(*first, std::byte(mark));
        EXPECT_EQ(*last, std::byte(mark));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_LE(pool.idle_bytes(), kMebi / 2);
}

}  // namespace
}  // namespace attn
