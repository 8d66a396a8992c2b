// What Append() stores, however tokens come.
#include <algorithm>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "engine/cache/kv_sequence.h"
#include "engine/tile/convert.h"
#include "gtest/gtest.h"
#include "tests/engine/cache/stored_rows.h"
#include "tests/proto/codec/allocation_counter.h"

namespace attn {
namespace {

constexpr int64_t kTokens = 200;
constexpr DType kKeptAs[] = {DType::kF32, DType::kF16, DType::kBF16,
                             DType::kI8};
constexpr DType kSentAs[] = {DType::kF32, DType::kF16, DType::kBF16,
                             DType::kF64};

// A tensor [1, heads, tokens, width] and its memory.
struct RowTensor {
  std::vector<std::byte> memory;
  TensorView view;

  // Tokens [first, first + count).
  TensorView Part(int64_t first, int64_t count) const {
    TensorView part = view;
    part.shape = Shape{1, view.shape[1], count, view.shape[3]};
    part.data +=
        first * view.strides[2] * static_cast<int64_t>(SizeOf(view.dtype));
    return part;
  }
};

enum class Order { kHeadFirst, kTokenFirst, kElementFirst };

// Random numbers; those of one seed are the same in every order. `shift` bytes
// in front of them put them at an address that is not aligned.
RowTensor RandomRows(unsigned seed, DType dtype, Order order, int64_t heads,
                     int64_t width, size_t shift = 0) {
  RowTensor made;
  const auto size = static_cast<int64_t>(SizeOf(dtype));
  made.memory.resize(static_cast<size_t>(heads * kTokens * width * size) +
                     shift);
  made.view.data = made.memory.data() + shift;
  made.view.dtype = dtype;
  made.view.shape = Shape{1, heads, kTokens, width};
  if (order == Order::kHeadFirst) {
    made.view.strides = {heads * kTokens * width, kTokens * width, width, 1};
  } else if (order == Order::kTokenFirst) {
    made.view.strides = {heads * kTokens * width, width, heads * width, 1};
  } else {
    made.view.strides = {heads * kTokens * width, kTokens, 1, heads * kTokens};
  }
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::byte> element(16);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t c = 0; c < width; ++c) {
        const float number = normal(random);
        StoreElements(&number, 1, dtype, element.data());
        const auto& strides = made.view.strides;
        const int64_t at = h * strides[1] + t * strides[2] + c * strides[3];
        std::memcpy(made.memory.data() + shift + static_cast<size_t>(at * size),
                    element.data(), static_cast<size_t>(size));
      }
    }
  }
  return made;
}

std::vector<std::byte> AppendInParts(const KvLayout& layout, const RowTensor& k,
                                     const RowTensor& v,
                                     const std::vector<int64_t>& parts,
                                     const PrepareKeys& prepare) {
  KvBlockPool pool(int64_t{64} << 20);
  KvSequence sequence(layout, pool);
  for (const int64_t part : parts) {
    EXPECT_TRUE(sequence.Reserve(part).ok());
    const int64_t first = sequence.length();
    sequence.Append(k.Part(first, part), v.Part(first, part), prepare);
  }
  EXPECT_EQ(sequence.length(), kTokens);
  return StoredBytes(sequence);
}

std::vector<std::vector<int64_t>> Divisions() {
  std::vector<std::vector<int64_t>> divisions = {
      {kTokens},       std::vector<int64_t>(kTokens, 1),
      {64, 64, 64, 8}, {63, 2, 63, 72},
      {0, 1, 199},     {129, 71}};
  std::mt19937 random(7);
  for (int i = 0; i < 5; ++i) {
    divisions.emplace_back();
    for (int64_t left = kTokens; left > 0;) {
      const int64_t part = std::min<int64_t>(left, 1 + random() % 90);
      divisions.back().push_back(part);
      left -= part;
    }
  }
  return divisions;
}

// Changes a key by its position and head.
void AddPlace(int64_t width, int64_t head, int64_t first, int64_t count,
              float* rows) {
  for (int64_t i = 0; i < count * width; ++i) {
    rows[i] += 0.01F * static_cast<float>((first + i / width) * (head + 1));
  }
}

TEST(KvSequenceAppendTest, EveryDivisionOfTheTokensGivesTheSameBytes) {
  for (const DType kept : kKeptAs) {
    for (const DType sent : kSentAs) {
      for (const bool prepared : {false, true}) {
        const KvLayout layout{2, 24, 17, kept};
        PrepareKeys prepare;
        if (prepared) {
          prepare = [](int64_t head, int64_t first, int64_t n, float* rows) {
            AddPlace(24, head, first, n, rows);
          };
        }
        const RowTensor k = RandomRows(1, sent, Order::kHeadFirst, 2, 24);
        const RowTensor v = RandomRows(2, sent, Order::kTokenFirst, 2, 17);
        const std::vector<std::byte> whole =
            AppendInParts(layout, k, v, {kTokens}, prepare);
        for (const std::vector<int64_t>& parts : Divisions()) {
          EXPECT_EQ(AppendInParts(layout, k, v, parts, prepare), whole)
              << Name(kept) << " of " << Name(sent) << " in " << parts.size();
        }
      }
    }
  }
}

TEST(KvSequenceAppendTest, WhereTheNumbersLieMakesNoDifference) {
  for (const DType kept : kKeptAs) {
    for (const DType sent : kSentAs) {
      const KvLayout layout{3, 8, 5, kept};
      const auto append = [&](Order order, size_t shift) {
        return AppendInParts(layout, RandomRows(1, sent, order, 3, 8, shift),
                             RandomRows(2, sent, order, 3, 5, shift),
                             {100, 100}, {});
      };
      const std::vector<std::byte> plain = append(Order::kHeadFirst, 0);
      EXPECT_EQ(append(Order::kTokenFirst, 0), plain);
      EXPECT_EQ(append(Order::kElementFirst, 0), plain);
      EXPECT_EQ(append(Order::kHeadFirst, 1), plain);
      EXPECT_EQ(append(Order::kTokenFirst, 3), plain);
    }
  }
}

TEST(KvSequenceAppendTest, EveryRowIsWhereItsLayoutSays) {
  const KvLayout layout{2, 24, 17, DType::kF32};
  const RowTensor k = RandomRows(1, DType::kF32, Order::kHeadFirst, 2, 24);
  const RowTensor v = RandomRows(2, DType::kF32, Order::kTokenFirst, 2, 17);
  KvBlockPool pool(int64_t{1} << 20);
  KvSequence sequence(layout, pool);
  ASSERT_TRUE(sequence.Reserve(kTokens).ok());
  sequence.Append(k.view, v.view,
                  [](int64_t head, int64_t first, int64_t n, float* rows) {
                    AddPlace(24, head, first, n, rows);
                  });
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t t = 0; t < kTokens; ++t) {
      std::vector<float> key(24);
      LoadElements(k.view.data + (h * kTokens + t) * 24 * 4, DType::kF32, 1, 24,
                   key.data());
      AddPlace(24, h, t, 1, key.data());
      EXPECT_EQ(StoredKey(sequence, h, t),
                std::vector<double>(key.begin(), key.end()));
      EXPECT_EQ(StoredValue(sequence, h, t),
                NumbersOf(v.view.data + (t * 2 + h) * 17 * 4, DType::kF32, 17));
    }
  }
}

TEST(KvSequenceAppendTest, AppendNeedsNoMemory) {
  for (const int64_t width : {16, 8200}) {
    const RowTensor k =
        RandomRows(1, DType::kF16, Order::kElementFirst, 1, width);
    for (const DType kept : kKeptAs) {
      const KvLayout layout{1, width, width, kept};
      KvBlockPool pool(int64_t{64} << 20);
      KvSequence sequence(layout, pool);
      ASSERT_TRUE(sequence.Reserve(kTokens).ok());
      const TensorView rows = k.view;
      const PrepareKeys prepare = [](int64_t, int64_t, int64_t, float*) {};
      const size_t before = AllocatedBytes();
      sequence.Append(rows, rows, prepare);
      EXPECT_EQ(AllocatedBytes(), before) << width << " " << Name(kept);
    }
  }
}

TEST(KvSequenceAppendTest, HeadsOrElementsMayBeNone) {
  for (const auto& [heads, k_dim, v_dim] :
       {std::tuple{0, 4, 4}, std::tuple{2, 0, 4}, std::tuple{2, 4, 0},
        std::tuple{2, 0, 0}}) {
    for (const DType kept : {DType::kF32, DType::kI8}) {
      const KvLayout layout{heads, k_dim, v_dim, kept};
      const RowTensor k =
          RandomRows(1, DType::kF32, Order::kHeadFirst, heads, k_dim);
      const RowTensor v =
          RandomRows(2, DType::kF32, Order::kHeadFirst, heads, v_dim);
      KvBlockPool pool(int64_t{1} << 20);
      KvSequence sequence(layout, pool);
      ASSERT_TRUE(sequence.Reserve(kTokens).ok());
      sequence.Append(k.view, v.view, {});
      EXPECT_EQ(sequence.length(), kTokens);
      EXPECT_EQ(sequence.bytes(), 4 * layout.block_bytes());
      for (int64_t h = 0; h < heads; ++h) {
        EXPECT_EQ(std::ssize(StoredKey(sequence, h, 199)), k_dim);
        EXPECT_EQ(std::ssize(StoredValue(sequence, h, 199)), v_dim);
      }
    }
  }
}

TEST(KvSequenceAppendDeathTest, WhatWasNotReservedOrIsSharedIsNotWritten) {
  const KvLayout layout{1, 4, 4, DType::kF32};
  const RowTensor k = RandomRows(1, DType::kF32, Order::kHeadFirst, 1, 4);
  KvBlockPool pool(int64_t{1} << 20);
  KvSequence sequence(layout, pool);
  ASSERT_TRUE(sequence.Reserve(64).ok());
  EXPECT_DEATH(sequence.Append(k.Part(0, 65), k.Part(0, 65), {}), "reserved");
  sequence.Append(k.Part(0, 10), k.Part(0, 10), {});
  KvSequence fork = sequence;
  EXPECT_DEATH(fork.Append(k.Part(10, 1), k.Part(10, 1), {}), "reserved");
  ASSERT_TRUE(fork.Reserve(1).ok());
  const RowTensor narrow = RandomRows(1, DType::kF32, Order::kHeadFirst, 1, 3);
  EXPECT_DEATH(fork.Append(k.Part(10, 1), narrow.Part(10, 1), {}), "appended");
}

}  // namespace
}  // namespace attn
