#include "engine/core/aligned_buffer.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(AlignedBufferTest, EverySizeIsAlignedAndWritable) {
  for (size_t size : {0, 1, 63, 64, 65, 4095, 1 << 20}) {
    AlignedBuffer buffer(size);
    ASSERT_NE(buffer.data(), nullptr) << size;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment, 0u)
        << size;
    EXPECT_EQ(buffer.size(), size);
    std::memset(buffer.data(), 0x5a, size);
  }
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
