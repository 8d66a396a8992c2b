#include "engine/cache/kv_sequence.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/cache/stored_rows.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kEndless = int64_t{1} << 40;
const KvLayout kLayout{2, 4, 3, DType::kF32};

// Appends tokens whose numbers are `first`, `first` + 1, ...
void AppendNumbers(KvSequence& sequence, int64_t count, float first = 0) {
  const KvLayout& layout = sequence.layout();
  std::vector<float> numbers;
  for (int64_t t = 0; t < count; ++t) {
    numbers.push_back(first + static_cast<float>(t));
  }
  // All heads and elements of a token are the same number.
  const auto view = [&](int64_t width) {
    TensorView rows = TensorView::Dense(numbers.data(), DType::kF32,
                                        {1, layout.kv_heads, count, width});
    rows.strides = {0, 0, 1, 0};
    return rows;
  };
  sequence.Append(view(layout.k_dim), view(layout.v_dim), {});
}

void Add(KvSequence& sequence, int64_t count) {
  ASSERT_TRUE(sequence.Reserve(count).ok());
  AppendNumbers(sequence, count, static_cast<float>(sequence.length()));
}

// Tokens [from, to) hold their own number.
void ExpectNumbers(const KvSequence& sequence, int64_t from, int64_t to) {
  for (int64_t t = from; t < to; ++t) {
    const auto number = static_cast<double>(t);
    for (int64_t h = 0; h < sequence.layout().kv_heads; ++h) {
      ASSERT_EQ(StoredKey(sequence, h, t), std::vector<double>(4, number));
      ASSERT_EQ(StoredValue(sequence, h, t), std::vector<double>(3, number));
    }
  }
}

absl::StatusCode CodeOfTruncate(KvSequence sequence, int64_t length,
                                int64_t window) {
  return sequence.Truncate(length, window).code();
}

TEST(KvSequenceTest, AnEmptyOneIsPresentAndTakesNothing) {
  KvBlockPool pool(kEndless);
  KvSequence sequence(kLayout, pool);
  EXPECT_EQ(sequence.length(), 0);
  EXPECT_EQ(sequence.bytes(), 0);
  EXPECT_TRUE(sequence.Describe().present());
  EXPECT_TRUE(sequence.Reserve(0).ok());
  AppendNumbers(sequence, 0);
  EXPECT_TRUE(sequence.Truncate(0, 0).ok());
  sequence.Release(0, 100);
  EXPECT_EQ(pool.used_bytes(), 0);
}

TEST(KvSequenceTest, DescribesItsLayout) {
  KvBlockPool pool(kEndless);
  const KvLayout layout{2, 4, 3, DType::kI8};
  KvSequence sequence(layout, pool);
  Add(sequence, 65);
  const KvBlocks blocks = sequence.Describe();
  EXPECT_EQ(blocks.block_tokens, 64);
  EXPECT_EQ(blocks.v_offset, 2 * 64 * 4);
  EXPECT_EQ(blocks.k_scale_offset, 2 * 64 * 4 + 2 * 64 * 3);
  EXPECT_EQ(blocks.v_scale_offset, blocks.k_scale_offset + 2 * 64 * 4);
  EXPECT_NE(blocks.blocks[0], blocks.blocks[1]);
}

TEST(KvSequenceTest, TakesABlockFor64Tokens) {
  KvBlockPool pool(kEndless);
  KvSequence sequence(kLayout, pool);
  for (int64_t t = 1; t <= 200; ++t) {
    Add(sequence, 1);
    EXPECT_EQ(sequence.bytes(), (t + 63) / 64 * kLayout.block_bytes());
    EXPECT_EQ(pool.used_bytes(), sequence.bytes());
  }
  ExpectNumbers(sequence, 0, 200);
}

TEST(KvSequenceTest, WhatIsReservedStaysUntilItIsTruncated) {
  KvBlockPool pool(kEndless);
  KvSequence sequence(kLayout, pool);
  ASSERT_TRUE(sequence.Reserve(1000).ok());
  const int64_t bytes = 16 * kLayout.block_bytes();
  EXPECT_EQ(sequence.bytes(), bytes);
  ASSERT_TRUE(sequence.Reserve(10).ok());
  EXPECT_EQ(pool.used_bytes(), bytes);
  AppendNumbers(sequence, 10);
  EXPECT_TRUE(sequence.Truncate(sequence.length(), 0).ok());
  EXPECT_EQ(pool.used_bytes(), kLayout.block_bytes());
  ExpectNumbers(sequence, 0, 10);
}

TEST(KvSequenceTest, ARefusedReservationChangesNothing) {
  KvBlockPool pool(4 * kLayout.block_bytes());
  KvSequence sequence(kLayout, pool);
  Add(sequence, 100);
  KvSequence fork = sequence;
  // A copy of the second block, and three new ones: one too many.
  const absl::Status status = fork.Reserve(64 * 4 - 100 + 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.used_bytes(), 2 * kLayout.block_bytes());
  EXPECT_EQ(fork.length(), 100);
  EXPECT_EQ(fork.bytes(), 2 * kLayout.block_bytes());
  EXPECT_EQ(fork.own_bytes(), 0);
  ExpectNumbers(fork, 0, 100);
  // The copy and one block more is what there is.
  EXPECT_TRUE(fork.Reserve(64 * 3 - 100).ok());
  EXPECT_EQ(pool.used_bytes(), 4 * kLayout.block_bytes());
  EXPECT_FALSE(sequence.Reserve(29).ok());
  EXPECT_EQ(sequence.Reserve(1).code(), absl::StatusCode::kOk)
      << "the block is its own again";
}

TEST(KvSequenceTest, EndlessReservationsAreRefusedAtOnce) {
  KvBlockPool pool(int64_t{1} << 20);
  KvSequence sequence(kLayout, pool);
  Add(sequence, 3);
  for (const int64_t tokens :
       {kEndless - 3, kEndless, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(sequence.Reserve(tokens).code(),
              absl::StatusCode::kResourceExhausted);
  }
  KvSequence endless(KvLayout{1, kEndless, kEndless, DType::kF32}, pool);
  EXPECT_EQ(endless.Reserve(1).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.used_bytes(), kLayout.block_bytes());
}

TEST(KvSequenceTest, TruncateForgetsAndAppendGoesOnFromThere) {
  KvBlockPool pool(kEndless);
  for (const int64_t length : {0, 1, 63, 64, 65, 127, 128, 199, 200, 300}) {
    KvSequence sequence(kLayout, pool);
    Add(sequence, 200);
    EXPECT_TRUE(sequence.Truncate(length, 0).ok());
    const int64_t left = std::min<int64_t>(length, 200);
    EXPECT_EQ(sequence.length(), left);
    EXPECT_EQ(sequence.bytes(), (left + 63) / 64 * kLayout.block_bytes());
    Add(sequence, 150);
    ExpectNumbers(sequence, 0, left + 150);
  }
  EXPECT_EQ(pool.used_bytes(), 0);
}

TEST(KvSequenceTest, ReleaseKeepsTheFrontAndOneBlockBeforeTheEnd) {
  KvBlockPool pool(kEndless);
  struct {
    int64_t keep, end, first_gone, last_gone;
  } const cases[] = {{0, 64, 0, 0},      {0, 127, 0, 0},   {0, 128, 0, 1},
                     {0, 640, 0, 9},     {1, 640, 1, 9},   {64, 640, 1, 9},
                     {65, 639, 2, 8},    {600, 640, 0, 0}, {-5, 9999, 0, 9},
                     {0, kEndless, 0, 9}};
  for (const auto& test : cases) {
    KvSequence sequence(kLayout, pool);
    Add(sequence, 650);
    sequence.Release(test.keep, test.end);
    const int64_t gone = test.last_gone - test.first_gone;
    EXPECT_EQ(sequence.bytes(), (11 - gone) * kLayout.block_bytes())
        << test.keep << " " << test.end;
    EXPECT_EQ(sequence.own_bytes(), sequence.bytes());
    EXPECT_EQ(pool.used_bytes(), sequence.bytes());
    EXPECT_EQ(sequence.length(), 650);
    ExpectNumbers(sequence, 0, test.first_gone * 64);
    ExpectNumbers(sequence, test.last_gone * 64, 650);
  }
}

TEST(KvSequenceTest, AWindowThatSlidesHoldsAsManyBlocksAsItNeeds) {
  KvBlockPool pool(kEndless);
  KvSequence sequence(kLayout, pool);
  for (int64_t t = 0; t < 3000; ++t) {
    Add(sequence, 1);
    sequence.Release(70, sequence.length() - 100);
    // Two in front, those that 100 tokens touch, and one for rollbacks.
    EXPECT_LE(pool.used_bytes(), (2 + 3 + 1) * kLayout.block_bytes());
  }
  ExpectNumbers(sequence, 0, 128);
  ExpectNumbers(sequence, 2900, 3000);
}

TEST(KvSequenceTest, AReleasedBlockIsSomeBlockThatIsHeld) {
  KvBlockPool pool(kEndless);
  KvSequence sequence(kLayout, pool);
  Add(sequence, 1000);
  sequence.Release(64, 800);
  KvSequence fork = sequence;
  // The block that stands in becomes the last one, and is copied.
  ASSERT_TRUE(fork.Truncate(11 * 64 + 20, 20).ok());
  Add(fork, 1);
  { const KvSequence gone = std::exchange(sequence, fork); }
  for (int64_t t = 64; t < 11 * 64; ++t) {
    EXPECT_EQ(StoredKey(fork, 1, t).size(), 4U) << "reads what is there";
  }
  ExpectNumbers(fork, 11 * 64, 11 * 64 + 21);
}

TEST(KvSequenceTest, ARollbackMustFindItsWindow) {
  KvBlockPool pool(kEndless);
  KvSequence sequence(kLayout, pool);
  Add(sequence, 1000);
  sequence.Release(64, 800);  // blocks 1 to 10: tokens 64 to 703
  constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
  EXPECT_EQ(CodeOfTruncate(sequence, 1000, 0), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOfTruncate(sequence, 999, 0), kRefused);
  EXPECT_EQ(CodeOfTruncate(sequence, 999, 295), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOfTruncate(sequence, 999, 296), kRefused);
  EXPECT_EQ(CodeOfTruncate(sequence, 705, 1), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOfTruncate(sequence, 704, 1), kRefused);
  EXPECT_EQ(CodeOfTruncate(sequence, 65, 1), kRefused);
  EXPECT_EQ(CodeOfTruncate(sequence, 64, 1), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOfTruncate(sequence, 64, 0), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOfTruncate(sequence, 0, kEndless), absl::StatusCode::kOk);
  const absl::Status status = sequence.Truncate(500, 100);
  EXPECT_EQ(status.code(), kRefused);
  EXPECT_THAT(status.message(), HasSubstr("got 500"));
  EXPECT_THAT(status.message(), HasSubstr("64 to 703"));
  EXPECT_EQ(sequence.length(), 1000);
  ExpectNumbers(sequence, 704, 1000);
  // Cut in front of the gap, it grows and slides again.
  ASSERT_TRUE(sequence.Truncate(30, 0).ok());
  Add(sequence, 1000);
  ExpectNumbers(sequence, 0, 1030);
  sequence.Release(0, 1030);
  EXPECT_EQ(pool.used_bytes(), 2 * kLayout.block_bytes());
}

TEST(KvSequenceTest, ReleasedTokensAreOneRange) {
  KvBlockPool pool(kEndless);
  KvSequence sequence(kLayout, pool);
  Add(sequence, 1280);
  sequence.Release(640, 832);   // blocks 10 and 11
  sequence.Release(960, 1088);  // 15 alone: does not touch it
  EXPECT_EQ(pool.used_bytes(), 18 * kLayout.block_bytes());
  sequence.Release(768, 960);  // 12 and 13
  sequence.Release(700, 900);  // nothing new
  EXPECT_EQ(pool.used_bytes(), 16 * kLayout.block_bytes());
  sequence.Release(128, 1280);  // 2 to 18
  EXPECT_EQ(pool.used_bytes(), 3 * kLayout.block_bytes());
  ExpectNumbers(sequence, 0, 128);
  ExpectNumbers(sequence, 19 * 64, 1280);
}

// Blocks of both kinds, of the heap and with mappings of their own.
TEST(KvSequenceTest, ManyThatCameAndWentLeaveNothing) {
  const KvLayout large{1, 512, 512, DType::kF32};
  ASSERT_EQ(large.block_bytes(), 256 << 10);
  KvBlockPool pool(int64_t{64} << 20);
  for (int i = 0; i < 100000; ++i) {
    const KvLayout layout =
        i % 64 == 0 ? large : KvLayout{1, 4, 3 + i % 5, DType::kF16};
    KvSequence sequence(layout, pool);
    ASSERT_TRUE(sequence.Reserve(1 + i % 130).ok());
    AppendNumbers(sequence, 1, 1);
    KvSequence fork = sequence;
    ASSERT_TRUE(fork.Reserve(1).ok());
    AppendNumbers(fork, 1, 2);
    ASSERT_GE(pool.used_bytes(), 2 * layout.block_bytes());
    ASSERT_LE(pool.used_bytes(), 4 * layout.block_bytes());
    ASSERT_LE(pool.idle_bytes(), 4 * large.block_bytes());
  }
  EXPECT_EQ(pool.used_bytes(), 0);
}

}  // namespace
}  // namespace attn
