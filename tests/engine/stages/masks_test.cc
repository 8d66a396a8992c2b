// Every mask against a predicate on single elements, on every tile of a grid.
#include <functional>
#include <random>
#include <vector>

#include "engine/core/field_error.h"
#include "engine/masks/mask.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/stages/stage_call.h"

namespace attn {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

using Allowed = std::function<bool(int64_t row, int64_t key)>;

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& problem) {
  return MaskTable()[spec.index()].make(spec, problem);
}

absl::Status Validate(const MaskSpec& spec, const Problem& problem) {
  return MaskTable()[spec.index()].validate(spec, problem, "spec.masks[1]");
}

bool AllAllowed(const TileBounds& b, const Allowed& allowed) {
  for (int64_t r = b.row_begin; r < b.row_begin + b.rows; ++r) {
    for (int64_t j = b.key_begin; j < b.key_begin + b.keys; ++j) {
      if (!allowed(r, j)) return false;
    }
  }
  return true;
}

template <typename T>
void ExpectExcluded(const Mask& mask, const StageCall& call,
                    const TileBounds& b, const Allowed& allowed) {
  // NaN, so that what is behind the mask must be overwritten, not added to.
  OwnedTile<T> tile(b, std::numeric_limits<T>::quiet_NaN());
  mask.Exclude(call.view(), tile.tile());
  for (int64_t r = 0; r < b.rows; ++r) {
    for (int64_t j = 0; j < b.keys; ++j) {
      if (allowed(b.row_begin + r, b.key_begin + j)) {
        ASSERT_TRUE(std::isnan(tile.At(r, j)));
      } else {
        ASSERT_EQ(tile.At(r, j), -std::numeric_limits<T>::infinity());
      }
    }
    // The gap between rows belongs to others.
    ASSERT_TRUE(std::isnan(tile.At(r, b.keys)));
  }
}

void ExpectMaskIs(const Mask& mask, const StageCall& call, int64_t batch,
                  const Allowed& allowed) {
  const int64_t keys = call.shape().kv_length;
  ForEachTile(call.shape(), batch, 0, [&](const TileBounds& b) {
    const KeyRange hull = mask.Visible(call.view(), b);
    ASSERT_GE(hull.begin, 0);
    ASSERT_LE(hull.end, keys);
    for (int64_t r = b.row_begin; r < b.row_begin + b.rows; ++r) {
      for (int64_t j = 0; j < keys; ++j) {
        if (!allowed(r, j)) continue;
        ASSERT_LE(hull.begin, j);
        ASSERT_LT(j, hull.end);
      }
    }
    if (mask.Covers(call.view(), b)) {
      ASSERT_TRUE(AllAllowed(b, allowed));
    }
    ExpectExcluded<float>(mask, call, b, allowed);
    ExpectExcluded<double>(mask, call, b, allowed);
  });
}

// A band is cheap to know exactly.
void ExpectBandIsTight(const Mask& mask, const StageCall& call, int64_t batch,
                       const Allowed& allowed) {
  const int64_t keys = call.shape().kv_length;
  ForEachTile(call.shape(), batch, 0, [&](const TileBounds& b) {
    ASSERT_EQ(mask.Covers(call.view(), b), AllAllowed(b, allowed));
    if (b.rows != 1) return;
    const KeyRange hull = mask.Visible(call.view(), b);
    for (int64_t j = 0; j < keys; ++j) {
      ASSERT_EQ(allowed(b.row_begin, j), hull.begin <= j && j < hull.end);
    }
  });
}

// Signed 128 bits hold every sum of the distances tried here.
Allowed BandRule(const StageCall& call, int64_t batch, const WindowMask& mask) {
  const int64_t kv_length = call.view().kv_length(batch);
  const int64_t offset = mask.alignment == Alignment::kBottomRight
                             ? kv_length - call.shape().q_length
                             : 0;
  return [=](int64_t row, int64_t key) {
    const __int128 gap = static_cast<__int128>(key) - row - offset;
    return (!mask.left.has_value() ||
            gap >= -static_cast<__int128>(*mask.left)) &&
           (!mask.right.has_value() || gap <= *mask.right);
  };
}

StageCall CallWithLengths(int64_t q_length, int64_t kv_length, bool ragged) {
  StageCall call(2, 1, q_length, kv_length);
  if (ragged) call.KvLengths({kv_length / 2, kv_length});
  return call;
}

// Calls fn(call) for shapes square, wide, tall, and with ragged lengths.
void ForEachShape(const std::function<void(const StageCall&)>& fn) {
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1}, {1, 7}, {5, 5},
                                                {3, 8}, {6, 2}, {4, 0}};
  for (const auto& [q_length, kv_length] : shapes) {
    for (const bool ragged : {false, true}) {
      fn(CallWithLengths(q_length, kv_length, ragged));
    }
  }
}

TEST(CausalMaskStage, MatchesItsDefinitionOnEveryTile) {
  ForEachShape([](const StageCall& call) {
    for (const Alignment alignment :
         {Alignment::kTopLeft, Alignment::kBottomRight}) {
      const CausalMask causal{alignment};
      const auto mask = Make(causal, Problem{});
      for (const int64_t batch : {0, 1}) {
        const Allowed rule =
            BandRule(call, batch, {std::nullopt, 0, alignment});
        ExpectMaskIs(*mask, call, batch, rule);
        ExpectBandIsTight(*mask, call, batch, rule);
      }
    }
  });
}

// Every pair of distances with every alignment.
std::vector<WindowMask> WindowsWorthTrying() {
  const std::optional<int64_t> distances[] = {std::nullopt, 0, 2, kMax - 1,
                                              kMax};
  std::vector<WindowMask> windows;
  for (const auto& left : distances) {
    for (const auto& right : distances) {
      windows.push_back({left, right, Alignment::kTopLeft});
      windows.push_back({left, right, Alignment::kBottomRight});
    }
  }
  return windows;
}

TEST(WindowMaskStage, MatchesItsDefinitionHoweverFarItReaches) {
  const std::vector<WindowMask> windows = WindowsWorthTrying();
  ForEachShape([&](const StageCall& call) {
    for (const WindowMask& window : windows) {
      const auto mask = Make(window, Problem{});
      const Allowed rule = BandRule(call, 0, window);
      ExpectMaskIs(*mask, call, 0, rule);
      ExpectBandIsTight(*mask, call, 0, rule);
    }
  });
}

TEST(WindowMaskStage, NegativeDistancesAreRefusedByName) {
  StageCall call(1, 1, 4, 4);
  EXPECT_TRUE(Validate(WindowMask{0, kMax}, call.problem()).ok());
  EXPECT_EQ(FieldOf(Validate(WindowMask{-1, 0}, call.problem())),
            "spec.masks[1].window.left");
  EXPECT_EQ(FieldOf(Validate(WindowMask{0, std::numeric_limits<int64_t>::min()},
                             call.problem())),
            "spec.masks[1].window.right");
}

TEST(BandAlignment, MayBeLeftOutOnlyWhereBothAgree) {
  StageCall square(1, 1, 4, 4);
  EXPECT_TRUE(Validate(CausalMask{}, square.problem()).ok());
  EXPECT_TRUE(Validate(WindowMask{1, 1}, square.problem()).ok());

  StageCall wide(1, 1, 4, 5);
  const absl::Status status = Validate(CausalMask{}, wide.problem());
  EXPECT_EQ(FieldOf(status), "spec.masks[1].causal.alignment");
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("TOP_LEFT"),
                             testing::HasSubstr("BOTTOM_RIGHT")));
  EXPECT_EQ(FieldOf(Validate(WindowMask{1, 1}, wide.problem())),
            "spec.masks[1].window.alignment");
  EXPECT_TRUE(Validate(CausalMask{Alignment::kTopLeft}, wide.problem()).ok());

  square.KvLengths({3});
  EXPECT_EQ(FieldOf(Validate(CausalMask{}, square.problem())),
            "spec.masks[1].causal.alignment");
  EXPECT_EQ(
      FieldOf(Validate(CausalMask{static_cast<Alignment>(9)}, wide.problem())),
      "spec.masks[1].causal.alignment");
}

// A mask of [2, 1, 5, 7] or less with about odds / 4 of its elements true,
// looked at in batch 1.
void ExpectDenseIs(const Shape& shape, unsigned odds, std::mt19937& random) {
  StageCall call(2, 1, 5, 7);
  std::vector<uint8_t> bits;
  for (int64_t i = 0; i < shape.element_count(); ++i) {
    bits.push_back(random() % 4 < odds ? 1 : 0);
  }
  const auto mask =
      Make(DenseMask{call.AddInput(DType::kBool, shape, bits)}, call.problem());
  const int rank = shape.rank();
  const int64_t rows = rank > 1 ? shape[rank - 2] : 1;
  const int64_t keys = shape[rank - 1];
  const int64_t base = rank == 4 && shape[0] == 2 ? rows * keys : 0;
  ExpectMaskIs(*mask, call, 1, [&](int64_t row, int64_t key) {
    const int64_t at = base + row % rows * keys + key % keys;
    return bits[static_cast<size_t>(at)] != 0;
  });
}

TEST(DenseMaskStage, MatchesItsElementsInEveryBroadcast) {
  const Shape shapes[] = {{7},          {1},          {5, 1},      {5, 7},
                          {2, 1, 1, 7}, {2, 1, 5, 7}, {1, 1, 5, 1}};
  std::mt19937 random(23);
  for (const Shape& shape : shapes) {
    for (const unsigned odds : {0U, 2U, 4U}) {
      ExpectDenseIs(shape, odds, random);
    }
  }
}

TEST(DenseMaskStage, APaddingMaskNarrowsTheHull) {
  StageCall call(1, 1, 3, 6);
  call.AddInput<uint8_t>(DType::kBool, {6}, {0, 1, 0, 1, 0, 0});
  call.AddInput<uint8_t>(DType::kBool, {6}, {0, 0, 0, 0, 0, 0});
  const TileBounds rows = {0, 0, 0, 3, 0, 6};
  const KeyRange hull =
      Make(DenseMask{0}, call.problem())->Visible(call.view(), rows);
  EXPECT_EQ(hull.begin, 1);
  EXPECT_EQ(hull.end, 4);
  EXPECT_TRUE(
      Make(DenseMask{1}, call.problem())->Visible(call.view(), rows).empty());
}

TEST(DenseMaskStage, AWrongInputIsRefusedByName) {
  StageCall call(1, 1, 4, 5);
  call.AddInput<float>(DType::kF32, {5}, {1, 1, 1, 1, 1});
  call.AddInput<uint8_t>(DType::kBool, {4}, {1, 1, 1, 1});
  for (const uint32_t input : {0U, 1U, 2U}) {
    EXPECT_EQ(FieldOf(Validate(DenseMask{input}, call.problem())),
              "spec.masks[1].dense.tensor.input");
  }
}

// A block as large as a number can be is one block of everything.
TEST(BlockMaskStages, BlocksOfTheLargestSizeDoNotOverflow) {
  StageCall call(1, 2, 3, 5);
  call.AddInput<uint8_t>(DType::kBool, {1, 1}, {1});
  const auto everything = [](int64_t, int64_t) { return true; };
  BigBirdMask big_bird;
  big_bird.block = kMax;
  big_bird.random_blocks = kMax;
  big_bird.global_blocks = kMax;
  big_bird.window_blocks = kMax;
  BlockSparseMask sparse;
  sparse.layout = 0;
  sparse.q_block = sparse.kv_block = kMax;
  for (const MaskSpec& spec : {MaskSpec{big_bird}, MaskSpec{sparse}}) {
    const absl::Status status = Validate(spec, call.problem());
    ASSERT_TRUE(status.ok()) << status;
    ExpectMaskIs(*Make(spec, call.problem()), call, 0, everything);
  }
}

TEST(BlockMaskStages, BigBirdIsBoundedAlsoWithoutKeys) {
  constexpr int64_t kHuge = int64_t{1} << 36;
  const auto field = [](int64_t heads, int64_t q_length, int64_t kv_length) {
    StageCall call(1, heads, q_length, kv_length);
    return FieldOf(Validate(BigBirdMask{}, call.problem()));
  };
  EXPECT_EQ(field(1, kHuge, 0), "spec.masks[1].big_bird.block");
  EXPECT_EQ(field(kHuge, 0, 0), "spec.masks[1].big_bird.block");
  EXPECT_EQ(field(1, 0, kHuge), "spec.masks[1].big_bird.block");
}

// Numbers at the end of their range exclude or allow as the definition says in
// numbers that do not overflow.
TEST(PatternMaskStages, TheLargestParametersDoNotOverflow) {
  ForEachShape([](const StageCall& call) {
    const Allowed causal = BandRule(call, 0, WindowMask{{}, 0});
    const Allowed everything = [](int64_t, int64_t) { return true; };
    StageCall own(call.shape().batch, call.shape().q_heads,
                  call.shape().q_length, call.shape().kv_length);
    const auto alignment = Alignment::kTopLeft;
    const auto expect = [&](const MaskSpec& spec, const Allowed& rule) {
      const absl::Status status = Validate(spec, own.problem());
      ASSERT_TRUE(status.ok()) << status;
      ExpectMaskIs(*Make(spec, own.problem()), own, 0, rule);
    };
    expect(DilatedMask{1, kMax, alignment}, everything);
    expect(StridedMask{kMax, alignment}, causal);
    expect(FixedMask{kMax, kMax, alignment}, causal);
    expect(LongformerMask{kMax, {kMax}, alignment}, everything);
    expect(StreamingMask{kMax, kMax, alignment}, causal);
    expect(PrefixMask{{kMax}, alignment}, everything);
    expect(WindowMask{kMax, kMax, alignment}, everything);
    expect(GlobalMask{{0, kMax}, alignment},
           [](int64_t row, int64_t key) { return row == 0 || key == 0; });
  });
}

}  // namespace
}  // namespace attn
