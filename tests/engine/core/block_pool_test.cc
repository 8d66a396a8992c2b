#include "engine/core/block_pool.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/proto/codec/allocation_counter.h"

namespace attn {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;
constexpr size_t kPage = 4096;

int64_t MinorFaults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

// Whether the kernel still knows the page at `address`.
bool IsMapped(void* address) {
  unsigned char resident = 0;
  return mincore(address, kPage, &resident) == 0;
}

TEST(BlockPoolTest, ABlockThatCameBackIsHandedOutAgain) {
  BlockPool pool(64 * kMebibyte);
  std::byte* const first = pool.Take(16 * kMebibyte);
  EXPECT_TRUE(pool.Give(first));
  EXPECT_EQ(pool.Take(16 * kMebibyte), first);
  EXPECT_TRUE(pool.Give(first));
}

TEST(BlockPoolTest, AUsedBlockCostsNoPageFaults) {
  constexpr size_t kSize = 3 * kMebibyte;  // small pages: faults are many
  BlockPool pool(64 * kMebibyte);
  const int64_t before = MinorFaults();
  std::byte* block = pool.Take(kSize);
  std::memset(block, 1, kSize);
  pool.Give(block);
  const int64_t fresh = MinorFaults() - before;
  block = pool.Take(kSize);
  std::memset(block, 2, kSize);
  const int64_t again = MinorFaults() - before - fresh;
  pool.Give(block);
  EXPECT_GE(fresh, static_cast<int64_t>(kSize / kPage));
  EXPECT_LT(again, static_cast<int64_t>(kSize / kPage / 20));
}

TEST(BlockPoolTest, ABlockFitsWhatIsAboutAsLargeAndNothingElse) {
  BlockPool pool(64 * kMebibyte);
  std::byte* const block = pool.Take(17 * kMebibyte);
  pool.Give(block);
  EXPECT_EQ(pool.Take(16 * kMebibyte + 1), block);
  pool.Give(block);
  for (const size_t other : {16 * kMebibyte, 18 * kMebibyte + 1}) {
    std::byte* const taken = pool.Take(other);
    EXPECT_NE(taken, block);
    pool.Give(taken);
  }
}

TEST(BlockPoolTest, AtMostAnEighthOfABlockIsOfNoUse) {
  BlockPool pool(0);
  std::minstd_rand random(1);
  for (int i = 0; i < 200; ++i) {
    const size_t size = 256 * 1024 + random() % (100 * kMebibyte);
    std::byte* const block = pool.Take(size);
    EXPECT_GE(pool.usage().in_use_bytes, size);
    EXPECT_LE(pool.usage().in_use_bytes, size + size / 8 + kPage);
    pool.Give(block);
  }
}

TEST(BlockPoolTest, IdleBlocksAreKeptOnlyWithinTheLimit) {
  BlockPool pool(40 * kMebibyte);
  std::byte* const a = pool.Take(16 * kMebibyte);
  std::byte* const b = pool.Take(16 * kMebibyte);
  std::byte* const c = pool.Take(16 * kMebibyte);
  pool.Give(a);  // 48 MiB in all: goes
  EXPECT_EQ(pool.usage().idle_bytes, 0U);
  EXPECT_FALSE(IsMapped(a));
  pool.Give(b);
  pool.Give(c);
  EXPECT_EQ(pool.usage().idle_bytes, 32 * kMebibyte);
  // What is new pushes out what has been idle longest.
  std::byte* const d = pool.Take(10 * kMebibyte);
  EXPECT_EQ(pool.usage().idle_bytes, 16 * kMebibyte);
  EXPECT_FALSE(IsMapped(b));
  EXPECT_TRUE(IsMapped(c));
  pool.Give(d);
}

TEST(BlockPoolTest, TrimGivesBackWhatIsIdleAndNothingElse) {
  BlockPool pool(64 * kMebibyte);
  std::byte* const idle = pool.Take(kMebibyte);
  std::byte* const held = pool.Take(kMebibyte);
  std::memset(held, 7, kMebibyte);
  pool.Give(idle);
  pool.Trim();
  EXPECT_FALSE(IsMapped(idle));
  EXPECT_EQ(held[kMebibyte - 1], std::byte{7});
  EXPECT_EQ(pool.usage().in_use_bytes, kMebibyte);
  pool.Give(held);
}

TEST(BlockPoolTest, ALowerLimitIsObeyedAtOnce) {
  BlockPool pool(64 * kMebibyte);
  pool.Give(pool.Take(8 * kMebibyte));
  pool.set_max_bytes(4 * kMebibyte);
  EXPECT_EQ(pool.usage().idle_bytes, 0U);
}

TEST(BlockPoolTest, MemoryOfOthersIsNotTaken) {
  BlockPool pool(64 * kMebibyte);
  alignas(kPage) static std::byte other[kPage];
  EXPECT_FALSE(pool.Give(other));
  EXPECT_FALSE(pool.Give(other + 1));
  std::byte* const block = pool.Take(kMebibyte);
  EXPECT_TRUE(pool.Give(block));
  EXPECT_FALSE(pool.Give(block)) << "twice";
}

TEST(BlockPoolTest, ASizeThatCannotBeMappedTakesNothing) {
  BlockPool pool(64 * kMebibyte);
  EXPECT_THROW(pool.Take(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(pool.Take(size_t{1} << 60), std::bad_alloc);
  EXPECT_EQ(pool.usage().in_use_bytes, 0U);
}

// Who gives a block back, in a destructor, could do nothing if there were none.
TEST(BlockPoolTest, WhatIsGivenBackNeedsNoMemory) {
  BlockPool pool(15 * kMebibyte);
  std::vector<std::byte*> blocks;
  for (size_t size = 1; size <= 6; ++size) {
    blocks.push_back(pool.Take(size * kMebibyte));
  }
  bool all_taken = true;
  const size_t before = AllocatedBytes();
  // Some are unmapped at once, some later.
  for (std::byte* block : blocks) all_taken = pool.Give(block) && all_taken;
  const size_t idle = pool.usage().idle_bytes;
  std::byte* const again = pool.Take(6 * kMebibyte);
  all_taken = pool.Give(again) && all_taken;
  pool.Trim();
  EXPECT_EQ(AllocatedBytes(), before);
  EXPECT_TRUE(all_taken);
  EXPECT_GT(idle, 0U);
  EXPECT_LT(idle, 21 * kMebibyte);
  EXPECT_EQ(again, blocks.back());
  EXPECT_EQ(pool.usage().idle_bytes, 0U);
}

// Each thread writes its own mark over what it holds: a block that two hold at
// once would show the mark of the other.
TEST(BlockPoolTest, NoBlockIsHeldByTwo) {
  BlockPool pool(8 * kMebibyte);
  std::vector<std::thread> threads;
  for (unsigned mark = 1; mark <= 4; ++mark) {
    threads.emplace_back([&pool, mark] {
      std::minstd_rand random(mark);
      for (int i = 0; i < 300; ++i) {
        const size_t size = kMebibyte / 4 * (1 + random() % 8);
        std::byte* const block = pool.Take(size);
        for (size_t at = 0; at < size; at += kPage) block[at] = std::byte(mark);
        std::this_thread::yield();
        for (size_t at = 0; at < size; at += kPage) {
          ASSERT_EQ(block[at], std::byte(mark));
        }
        ASSERT_TRUE(pool.Give(block));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const BlockPool::Usage usage = pool.usage();
  EXPECT_EQ(usage.in_use_bytes, 0U);
  EXPECT_LE(usage.idle_bytes, 8 * kMebibyte);
}

}  // namespace
}  // namespace attn
