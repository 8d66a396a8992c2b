// What a rotary transform refuses, by name.
#include <functional>
#include <limits>
#include <string>

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
