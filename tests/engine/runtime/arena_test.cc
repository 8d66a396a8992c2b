#include "engine/runtime/arena.h"

#include <cstdint>
#include <cstring>
#include <new>

#include "gtest/gtest.h"

namespace attn {
namespace {

uintptr_t AddressOf(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

TEST(ArenaTest, EveryAllocationIsAlignedAndItsOwn) {
  Arena arena;
  arena.Reserve(Arena::Padded(3) + Arena::Padded(5 * sizeof(double)) +
                Arena::Padded(64));
  auto* const bytes = arena.Allocate<std::byte>(3);
  auto* const doubles = arena.Allocate<double>(5);
  auto* const more = arena.Allocate<std::byte>(64);
  EXPECT_EQ(AddressOf(bytes) % kArenaAlignment, 0u);
  EXPECT_EQ(AddressOf(doubles) % kArenaAlignment, 0u);
  EXPECT_EQ(AddressOf(more) % kArenaAlignment, 0u);
  EXPECT_GE(AddressOf(doubles), AddressOf(bytes + 3));
  EXPECT_GE(AddressOf(more), AddressOf(doubles + 5));
  std::memset(more, 1, 64);
}

TEST(ArenaTest, PaddedIsTheNextMultipleOfTheAlignment) {
  for (size_t bytes = 0; bytes < 300; ++bytes) {
    const size_t padded = Arena::Padded(bytes);
    EXPECT_EQ(padded % kArenaAlignment, 0u);
    EXPECT_GE(padded, bytes);
    EXPECT_LT(padded, bytes + kArenaAlignment);
  }
}

TEST(ArenaTest, ResetGivesTheSameMemoryAgain) {
  Arena arena;
  arena.Reserve(128);
  const std::byte* const first = arena.Allocate<std::byte>(128);
  arena.Reset();
  EXPECT_EQ(arena.Allocate<std::byte>(128), first);
}

TEST(ArenaTest, ReservingLessKeepsTheBlockAndResets) {
  Arena arena;
  arena.Reserve(4096);
  const std::byte* const first = arena.Allocate<std::byte>(4096);
  arena.Reserve(64);
  EXPECT_EQ(arena.capacity(), 4096u);
  EXPECT_EQ(arena.Allocate<std::byte>(64), first);
}

TEST(ArenaTest, ReservingMoreGrows) {
  Arena arena;
  arena.Reserve(64);
  arena.Reserve(1000);
  EXPECT_EQ(arena.capacity(), Arena::Padded(1000));
  std::memset(arena.Allocate<std::byte>(1000), 1, 1000);
}

TEST(ArenaTest, TrimGivesLargeBlocksBackOnly) {
  Arena arena;
  arena.Reserve(4096);
  arena.Trim(4096);
  EXPECT_EQ(arena.capacity(), 4096u);
  arena.Trim(4095);
  EXPECT_EQ(arena.capacity(), 0u);
  arena.Reserve(64);
  EXPECT_NE(arena.Allocate<std::byte>(64), nullptr);
}

TEST(ArenaTest, NothingTakesNothing) {
  Arena arena;
  arena.Reserve(64);
  arena.Allocate<double>(0);
  EXPECT_NE(arena.Allocate<std::byte>(64), nullptr);
}

TEST(ArenaTest, AReservationBeyondTheAddressSpaceThrows) {
  Arena arena;
  EXPECT_THROW(arena.Reserve(SIZE_MAX), std::bad_alloc);
}

TEST(ArenaDeathTest, TakingMoreThanWasReservedDies) {
  Arena arena;
  arena.Reserve(128);
  arena.Allocate<std::byte>(1);
  EXPECT_DEATH(arena.Allocate<std::byte>(65), "65 bytes of scratch after 64");
}

TEST(ArenaDeathTest, TakingFromAnArenaWithoutReservationDies) {
  Arena arena;
  EXPECT_DEATH(arena.Allocate<float>(1), "0 are reserved");
}

}  // namespace
}  // namespace attn
