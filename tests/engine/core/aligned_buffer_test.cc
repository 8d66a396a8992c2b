#include "engine/core/aligned_buffer.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/block_pool.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(AlignedBufferTest, EverySizeIsAlignedAndWritable) {
  for (const size_t size : std::vector<size_t>{0, 1, 63, 64, 65, 4095, 1 << 20,
                                               (size_t{9} << 20) + 5}) {
    AlignedBuffer buffer(size);
    ASSERT_NE(buffer.data(), nullptr) << size;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment, 0u)
        << size;
    EXPECT_EQ(buffer.size(), size);
    std::memset(buffer.data(), 0x5a, size);
  }
}

// The flags of the mapping that holds `address`, as the kernel spells them.
std::string MappingFlags(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool holds = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-') {
      holds = begin <= wanted && wanted < end;
    }
    if (holds && line.rfind("VmFlags:", 0) == 0) return line + " ";
  }
  return "";
}

TEST(AlignedBufferTest, ALargeOneAsksForHugePages) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer allocates itself";
#endif
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) {
    GTEST_SKIP() << "the kernel has no transparent huge pages";
  }
  constexpr size_t kHugePage = size_t{2} << 20;
  const AlignedBuffer large(4 * kHugePage);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % kHugePage, 0u);
  EXPECT_NE(MappingFlags(large.data()).find(" hg "), std::string::npos);
  const AlignedBuffer small(kHugePage / 2);
  EXPECT_EQ(MappingFlags(small.data()).find(" hg "), std::string::npos);
}

TEST(AlignedBufferTest, LargeOnesComeFromThePoolAndGoBack) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "under the address sanitizer nothing is pooled";
#endif
  constexpr size_t kLarge = size_t{3} << 20;
  const size_t before = BufferPool().usage().in_use_bytes;
  {
    AlignedBuffer buffer(kLarge);
    AlignedBuffer given(kLarge);
    EXPECT_EQ(BufferPool().usage().in_use_bytes, before + 2 * kLarge);
    AlignedBuffer::Free(given.Release());
    EXPECT_EQ(BufferPool().usage().in_use_bytes, before + kLarge);
    const AlignedBuffer small(1000);
    EXPECT_EQ(BufferPool().usage().in_use_bytes, before + kLarge);
  }
  EXPECT_EQ(BufferPool().usage().in_use_bytes, before);
}

TEST(AlignedBufferTest, ADefaultOneIsEmpty) {
  const AlignedBuffer buffer;
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0u);
}

TEST(AlignedBufferTest, AMoveLeavesNothingBehind) {
  AlignedBuffer from(100);
  const std::byte* const block = from.data();
  AlignedBuffer to(7);
  to = std::move(from);
  EXPECT_EQ(to.data(), block);
  EXPECT_EQ(to.size(), 100u);
  // NOLINTNEXTLINE(bugprone-use-after-move): what is left is the question.
  EXPECT_EQ(from.size(), 0u);
  EXPECT_EQ(from.data(), nullptr);
}

TEST(AlignedBufferTest, ReleasedMemoryIsTheCallersToFree) {
  AlignedBuffer buffer(100);
  std::byte* const block = buffer.Release();
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0u);
  AlignedBuffer::Free(block);
}

TEST(AlignedBufferTest, SizesNearTheLimitDoNotWrapToSmallBlocks) {
  EXPECT_THROW(AlignedBuffer(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(AlignedBuffer(SIZE_MAX - 62), std::bad_alloc);
}

}  // namespace
}  // namespace attn
