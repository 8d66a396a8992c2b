// What a rotary transform refuses, by name.
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/field_error.h"
#include "engine/transforms/transform.h"
#include "gtest/gtest.h"
#include "tests/engine/stages/stage_call.h"

namespace attn {
namespace {

// Two sequences of 3 queries and 5 keys. Inputs 0 and 1: tables of 5
// positions; 2: by row of the queries; 3: by row of the keys.
class RotaryStage : public ::testing::Test {
 protected:
  RotaryStage() {
    for (const Shape& shape :
         {Shape{5, 2}, Shape{5, 2}, Shape{2, 3, 2}, Shape{2, 5, 2}}) {
      call_.AddInput(DType::kF32, shape, std::vector<float>(20, 1.0F));
    }
  }
  std::string FieldOfError(const RotaryTransform& rotary) {
    const TransformSpec spec = rotary;
    return FieldOf(TransformTable()[spec.index()].validate(
                       spec, call_.problem(), "spec.transforms[0]"))
        .value_or("");
  }
  static RotaryTransform WithTable(uint32_t cos, uint32_t sin) {
    RotaryTransform rotary;
    rotary.cos = cos;
    rotary.sin = sin;
    return rotary;
  }

  StageCall call_{2, 1, 3, 5};
};

constexpr char kField[] = "spec.transforms[0].rotary";

TEST_F(RotaryStage, OffsetsWhosePositionsOverflowAreRefused) {
  for (const int64_t offset : {std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min()}) {
    RotaryTransform query;
    query.query_offset = offset;
    EXPECT_EQ(FieldOfError(query), std::string(kField) + ".query_offset");
    RotaryTransform key;
    key.key_offset = offset;
    EXPECT_EQ(FieldOfError(key), std::string(kField) + ".key_offset");
  }
  RotaryTransform negative;
  negative.query_offset = -7;
  EXPECT_EQ(FieldOfError(negative), "");
}

TEST_F(RotaryStage, ATableByPositionReachesEveryRow) {
  RotaryTransform rotary = WithTable(0, 1);
  EXPECT_EQ(FieldOfError(rotary), "");
  rotary.query_offset = 2;
  EXPECT_EQ(FieldOfError(rotary), "");
  rotary.query_offset = 3;
  EXPECT_EQ(FieldOfError(rotary), std::string(kField) + ".cos.input");
  rotary.query_offset = -1;
  EXPECT_EQ(FieldOfError(rotary), std::string(kField) + ".query_offset");
  rotary.target = TransformTarget::kKey;
  EXPECT_EQ(FieldOfError(rotary), "");
  rotary.key_offset = 1;
  EXPECT_EQ(FieldOfError(rotary), std::string(kField) + ".cos.input");
}

// A position that is data was looked for in cos alone, and read beyond sin.
TEST_F(RotaryStage, TablesOfCosAndSinHaveTheSameExtents) {
  const uint32_t short_sin =
      call_.AddInput(DType::kF32, Shape{4, 2}, std::vector<float>(8, 1.0F));
  const uint32_t positions =
      call_.AddInput(DType::kI64, Shape{3}, std::vector<int64_t>{4, 0, 1});
  RotaryTransform rotary = WithTable(0, short_sin);
  rotary.target = TransformTarget::kQuery;
  EXPECT_EQ(FieldOfError(rotary), std::string(kField) + ".sin.input");
  rotary.query_positions = positions;
  EXPECT_EQ(FieldOfError(rotary), std::string(kField) + ".sin.input");
  rotary.sin = 1;
  EXPECT_EQ(FieldOfError(rotary), "");
}

// What is remembered of one head's rows must not be taken for other rows.
TEST_F(RotaryStage, KeysHeadByHeadHaveTheBitsOfEachHeadAlone) {
  const uint32_t angles = call_.AddInput(DType::kF32, Shape{300, 2}, [] {
    std::vector<float> values;
    for (int i = 0; i < 600; ++i) {
      values.push_back(0.01F * static_cast<float>(i % 97));
    }
    return values;
  }());
  RotaryTransform plain;
  plain.key_offset = 3;
  plain.layout = RotaryLayout::kHalfSplit;
  plain.position_scale = 1.5;
  for (const RotaryTransform& rotary : {plain, WithTable(angles, angles)}) {
    const TransformSpec spec = rotary;
    const auto stage =
        TransformTable()[spec.index()].make(spec, call_.problem());
    const KeyTransform over_heads = stage->OverHeads();
    // Also beyond what it remembers, and back.
    const std::vector<std::pair<int64_t, int64_t>> spans = {
        {0, 3}, {0, 130}, {64, 2}, {100, 150}, {0, 1}};
    for (const auto& [begin, count] : spans) {
      for (int64_t head = 0; head < 3; ++head) {
        const RowSpan span{0, head, begin, count};
        std::vector<float> want;
        for (int64_t i = 0; i < 4 * count; ++i) {
          want.push_back(1 / static_cast<float>(i + head + 1));
        }
        std::vector<float> got = want;
        stage->Apply(call_.view(), Side::kKey, span, want.data());
        over_heads(call_.view(), span, got.data());
        EXPECT_EQ(got, want) << begin << " and " << count << " rows";
      }
    }
  }
}

TEST_F(RotaryStage, ATableByRowIsOfTheLengthOfEverySideThatTurns) {
  RotaryTransform rotary = WithTable(2, 2);
  EXPECT_EQ(FieldOfError(rotary), std::string(kField) + ".cos.input");
  rotary.target = TransformTarget::kQuery;
  EXPECT_EQ(FieldOfError(rotary), "");
  rotary.target = TransformTarget::kKey;
  EXPECT_EQ(FieldOfError(rotary), std::string(kField) + ".cos.input");
  rotary = WithTable(3, 3);
  rotary.target = TransformTarget::kKey;
  EXPECT_EQ(FieldOfError(rotary), "");
}

}  // namespace
}  // namespace attn
