#include "engine/core/call_view.h"

#include "gtest/gtest.h"

namespace attn {
namespace {

AttentionShape SmallShape() {
  AttentionShape shape;
  shape.batch = 2;
  shape.q_heads = 8;
  shape.kv_heads = 2;
  shape.q_length = 5;
  shape.kv_length = 7;
  return shape;
}

TEST(CallViewTest, WithoutLengthsAllOfTheTensorsCounts) {
  const AttentionShape shape = SmallShape();
  const AttentionArgs args;
  const CallView call{shape, args};
  EXPECT_EQ(call.q_length(1), 5);
  EXPECT_EQ(call.kv_length(1), 7);
  EXPECT_EQ(call.diagonal(1, Alignment::kTopLeft), 0);
  EXPECT_EQ(call.diagonal(1, Alignment::kBottomRight), 2);
}

TEST(CallViewTest, BottomRightFollowsTheKeysLengthAndTheTensorsQueries) {
  const AttentionShape shape = SmallShape();
  AttentionArgs args;
  args.q_lengths = {5, 3};
  args.kv_lengths = {7, 4};
  const CallView call{shape, args};
  EXPECT_EQ(call.q_length(1), 3);
  EXPECT_EQ(call.kv_length(1), 4);
  // kv_len - Sq, as SEMANTICS has it: 4 - 5.
  EXPECT_EQ(call.diagonal(1, Alignment::kBottomRight), -1);
  EXPECT_EQ(call.diagonal(0, Alignment::kBottomRight), 2);
}

TEST(CallViewTest, AGroupIsTheQueryHeadsOfOneKvHead) {
  EXPECT_EQ(SmallShape().group_size(), 4);
}

TEST(CallViewTest, ACallWithoutHeadsHasEmptyGroups) {
  EXPECT_EQ(AttentionShape().group_size(), 0);
  AttentionShape no_queries;
  no_queries.kv_heads = 2;
  EXPECT_EQ(no_queries.group_size(), 0);
}

TEST(CallViewTest, ARaggedCallHasTheLengthsOfItsSequences) {
  const AttentionShape shape = SmallShape();
  AttentionArgs args;
  args.q_offsets = {0, 5, 8};
  args.kv_offsets = {0, 7, 9};
  const CallView call{shape, args};
  EXPECT_EQ(call.q_length(1), 3);
  EXPECT_EQ(call.kv_length(1), 2);
  EXPECT_EQ(call.q_extent(0), 5);
  EXPECT_EQ(call.kv_extent(0), 7);
  EXPECT_EQ(call.diagonal(0, Alignment::kBottomRight), 2);
  EXPECT_EQ(call.diagonal(1, Alignment::kBottomRight), -1);
  EXPECT_EQ(call.diagonal(1, Alignment::kTopLeft), 0);
  EXPECT_EQ(call.position_offset(1), -1);
}

TEST(CallViewTest, BiasesKnowNoLengthsOfPaddedCalls) {
  const AttentionShape shape = SmallShape();
  AttentionArgs args;
  args.kv_lengths = {7, 4};
  const CallView call{shape, args};
  EXPECT_EQ(call.position_offset(1), 2);
}

}  // namespace
}  // namespace attn
