// What was saved and loaded is the same sequence, whatever the file says.
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "engine/cache/kv_sequence.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/cache/stored_rows.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kAnyBytes = int64_t{1} << 40;
constexpr int64_t kSavedHeads = 2;
constexpr int64_t kSavedWidth = 3;

KvLayout LayoutOf(DType dtype) {
  return {kSavedHeads, kSavedWidth, kSavedWidth + 1, dtype};
}

// Appends `count` tokens, no two of which are alike.
void Extend(KvSequence& sequence, int64_t count) {
  ASSERT_TRUE(sequence.Reserve(count).ok());
  const auto rows = [&](int64_t width) {
    std::vector<float> numbers;
    for (int64_t head = 0; head < kSavedHeads; ++head) {
      for (int64_t t = 0; t < count; ++t) {
        for (int64_t c = 0; c < width; ++c) {
          const int64_t token = sequence.length() + t;
          numbers.push_back(
              static_cast<float>((token * 37 + head * 11 + c) % 251) - 125);
        }
      }
    }
    return numbers;
  };
  const std::vector<float> k = rows(kSavedWidth);
  const std::vector<float> v = rows(kSavedWidth + 1);
  sequence.Append(TensorView::Dense(k.data(), DType::kF32,
                                    {1, kSavedHeads, count, kSavedWidth}),
                  TensorView::Dense(v.data(), DType::kF32,
                                    {1, kSavedHeads, count, kSavedWidth + 1}),
                  {});
}

std::string SavedOf(const KvSequence& sequence) {
  std::string bytes;
  const absl::Status status =
      sequence.Save([&bytes](const std::byte* part, size_t size) {
        bytes.append(reinterpret_cast<const char*>(part), size);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return bytes;
}

// Gives the bytes one after the other, and an error at their end.
KvByteSource SourceOf(std::string bytes) {
  return [bytes = std::move(bytes), at = size_t{0}](
             std::byte* part, size_t size) mutable -> absl::Status {
    if (size > bytes.size() - at) return absl::DataLossError("it ends");
    std::memcpy(part, bytes.data() + at, size);
    at += size;
    return absl::OkStatus();
  };
}

KvSequence LoadedFrom(const KvSequence& sequence, KvBlockPool& pool) {
  KvSequence loaded(sequence.layout(), pool);
  EXPECT_TRUE(loaded.ReserveExtent(sequence.extent()).ok());
  EXPECT_TRUE(loaded.Load(SourceOf(SavedOf(sequence))).ok());
  return loaded;
}

class KvBytesTest : public ::testing::TestWithParam<DType> {};

TEST_P(KvBytesTest, ALoadedSequenceHasTheSameBitsAndGoesOnAlike) {
  KvBlockPool pool(kAnyBytes);
  KvBlockPool other(kAnyBytes);
  for (const int64_t length : {0, 1, 63, 64, 65, 128, 300}) {
    KvSequence sequence(LayoutOf(GetParam()), pool);
    Extend(sequence, length);
    // Spare blocks are nobody's.
    ASSERT_TRUE(sequence.Reserve(200).ok());
    EXPECT_EQ(
        static_cast<int64_t>(SavedOf(sequence).size()),
        sequence.extent().saved_bytes(LayoutOf(GetParam()).block_bytes()));
    KvSequence loaded = LoadedFrom(sequence, other);
    EXPECT_EQ(loaded.extent(), sequence.extent());
    EXPECT_EQ(StoredBytes(loaded), StoredBytes(sequence)) << length;
    Extend(sequence, 70);
    Extend(loaded, 70);
    EXPECT_EQ(StoredBytes(loaded), StoredBytes(sequence)) << length;
  }
}

TEST_P(KvBytesTest, WhatAWindowLetGoIsNoMoreThanAMark) {
  KvBlockPool pool(kAnyBytes);
  KvSequence sequence(LayoutOf(GetParam()), pool);
  Extend(sequence, 700);
  sequence.Release(70, 600);
  // Blocks 2 to 7 of 11.
  const KvExtent extent = {
      .length = 700, .released_begin = 2, .released_end = 8};
  ASSERT_EQ(sequence.extent(), extent);
  EXPECT_EQ(static_cast<int64_t>(SavedOf(sequence).size()),
            5 * LayoutOf(GetParam()).block_bytes() + 6);
  KvSequence loaded = LoadedFrom(sequence, pool);
  EXPECT_EQ(loaded.bytes(), sequence.bytes());
  EXPECT_EQ(StoredBytes(loaded), StoredBytes(sequence));
  // A rollback behind the window is refused as it was.
  EXPECT_FALSE(loaded.Truncate(500, 100).ok());
  EXPECT_TRUE(loaded.Truncate(650, 100).ok());
  EXPECT_TRUE(loaded.Truncate(100, 0).ok());
}

TEST_P(KvBytesTest, AForkComesBackAlone) {
  KvBlockPool pool(kAnyBytes);
  KvSequence sequence(LayoutOf(GetParam()), pool);
  Extend(sequence, 100);
  const KvSequence fork = sequence;
  KvSequence loaded = LoadedFrom(fork, pool);
  EXPECT_EQ(loaded.own_bytes(), loaded.bytes());
  const auto before = StoredBytes(fork);
  Extend(loaded, 10);
  EXPECT_EQ(StoredBytes(fork), before);
}

// Blocks are used again: a file must not hold what was another's.
TEST_P(KvBytesTest, RowsThatNoTokenHasAreZeros) {
  KvBlockPool pool(kAnyBytes);
  KvSequence sequence(LayoutOf(GetParam()), pool);
  Extend(sequence, 64);
  const std::string full = SavedOf(sequence);
  ASSERT_TRUE(sequence.Truncate(1, 0).ok());
  const std::string one = SavedOf(sequence);
  ASSERT_EQ(one.size(), full.size());
  KvSequence fresh(LayoutOf(GetParam()), pool);
  Extend(fresh, 1);
  EXPECT_TRUE(one == SavedOf(fresh));
}

INSTANTIATE_TEST_SUITE_P(EveryType, KvBytesTest,
                         ::testing::Values(DType::kF32, DType::kF16,
                                           DType::kBF16, DType::kI8),
                         [](const auto& test) {
                           return std::string(Name(test.param));
                         });

TEST(KvExtentTest, OnlyWhatASequenceMayBeIsTaken) {
  constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();
  KvBlockPool pool(kAnyBytes);
  KvSequence sequence(LayoutOf(DType::kF32), pool);
  for (const KvExtent& extent :
       {KvExtent{-1, 0, 0}, KvExtent{(int64_t{1} << 40) + 1, 0, 0},
        KvExtent{kMostBytes, 0, 0}, KvExtent{640, -1, 2}, KvExtent{640, 3, 2},
        KvExtent{640, 2, 10}, KvExtent{640, 5, 5}, KvExtent{640, kMostBytes, 2},
        KvExtent{640, 0, kMostBytes}, KvExtent{0, 0, 1}}) {
    EXPECT_EQ(sequence.ReserveExtent(extent).code(),
              absl::StatusCode::kInvalidArgument)
        << extent.length << " " << extent.released_begin << " "
        << extent.released_end;
    EXPECT_EQ(sequence.length(), 0);
  }
  EXPECT_THAT(std::string(KvExtent{640, 2, 10}.Check().message()),
              HasSubstr("released: got blocks 2 to 10"));
  constexpr KvExtent kLong = {int64_t{1} << 40, 0, 0};
  EXPECT_EQ(kLong.held_bytes(int64_t{1} << 60), kMostBytes);
  EXPECT_EQ(kLong.saved_bytes(int64_t{1} << 60), kMostBytes);
}

TEST(KvExtentTest, BeyondTheBudgetNothingIsTaken) {
  const KvLayout layout = LayoutOf(DType::kF32);
  KvBlockPool pool(2 * layout.block_bytes());
  KvSequence sequence(layout, pool);
  EXPECT_EQ(sequence.ReserveExtent({129, 0, 0}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_EQ(sequence.length(), 0);
  EXPECT_TRUE(sequence.ReserveExtent({128, 0, 0}).ok());
}

TEST(KvExtentTest, ErrorsOfAFileArePassedOn) {
  KvBlockPool pool(kAnyBytes);
  KvSequence sequence(LayoutOf(DType::kF32), pool);
  Extend(sequence, 100);
  std::string bytes = SavedOf(sequence);
  bytes.pop_back();
  KvSequence loaded(LayoutOf(DType::kF32), pool);
  ASSERT_TRUE(loaded.ReserveExtent(sequence.extent()).ok());
  EXPECT_EQ(loaded.Load(SourceOf(bytes)), absl::DataLossError("it ends"));
  const absl::Status full = absl::ResourceExhaustedError("the disk is full");
  EXPECT_EQ(sequence.Save([&](const std::byte*, size_t) { return full; }),
            full);
}

}  // namespace
}  // namespace attn
