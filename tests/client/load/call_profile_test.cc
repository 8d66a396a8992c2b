#include "client/load/call_profile.h"

#include <string>
#include <variant>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(CallShape, SixExtentsGiveTheValuesTheQueriesWidth) {
  const AttentionShape shape = ParseCallShape("1,8,2,512,640,64").value();
  EXPECT_EQ(shape.batch, 1);
  EXPECT_EQ(shape.q_heads, 8);
  EXPECT_EQ(shape.kv_heads, 2);
  EXPECT_EQ(shape.q_length, 512);
  EXPECT_EQ(shape.kv_length, 640);
  EXPECT_EQ(shape.q_dim, 64);
  EXPECT_EQ(shape.k_dim, 64);
  EXPECT_EQ(shape.v_dim, 64);
}

TEST(CallShape, TheSeventhIsTheValuesWidth) {
  EXPECT_EQ(ParseCallShape("1,1,1,2,3,4,5").value().v_dim, 5);
}

class BadCallShapeTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BadCallShapeTest, IsRefusedByName) {
  const absl::Status status = ParseCallShape(GetParam()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "shape");
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Shapes, BadCallShapeTest,
                         ::testing::Values("", "1", "1,2,3,4,5",
                                           "1,2,3,4,5,6,7,8", "1,1,1,1,1,0",
                                           "1,1,1,-1,1,1", "1,1,1,x,1,1",
                                           "1,1,1,1,1,1,", "1,1,1,1,1,1.5",
                                           "9223372036854775808,1,1,1,1,1"));

TEST(CallProfile, CausalIsBottomRightWhereTheLengthsDiffer) {
  CallProfile profile{.shape = ParseCallShape("1,1,1,1,9,4").value(),
                      .causal = true};
  const AttentionSpec spec = profile.Spec();
  ASSERT_EQ(spec.masks.size(), 1u);
  EXPECT_EQ(std::get<CausalMask>(spec.masks[0]).alignment,
            Alignment::kBottomRight);
  profile.causal = false;
  EXPECT_TRUE(profile.Spec().masks.empty());
}

TEST(CallProfile, IsSpelledAsItIsGiven) {
  CallProfile profile{.shape = ParseCallShape("1,4,4,16,16,32").value(),
                      .dtype = DType::kBF16,
                      .causal = true};
  EXPECT_EQ(profile.ToString(), "1,4,4,16,16,32 BF16 causal");
  profile.shape.v_dim = 8;
  EXPECT_EQ(profile.ToString(), "1,4,4,16,16,32,8 BF16 causal");
}

}  // namespace
}  // namespace attn
