#include "client/cli/inspect_flags.h"

#include <string>

#include "engine/core/field_error.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(InspectFlagsTest, APartIsARangeForEachAxis) {
  const auto part = ParsePart("1,2:4,:8,16:");
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->batch().begin(), 1);
  EXPECT_EQ(part->batch().end(), 2);
  EXPECT_EQ(part->head().begin(), 2);
  EXPECT_EQ(part->head().end(), 4);
  EXPECT_EQ(part->query().begin(), 0);
  EXPECT_EQ(part->query().end(), 8);
  EXPECT_EQ(part->key().begin(), 16);
  EXPECT_FALSE(part->key().has_end());
}

TEST(InspectFlagsTest, AxesThatAreLeftAwayAreWhole) {
  const auto part = ParsePart(":,3");
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_FALSE(part->batch().has_end());
  EXPECT_EQ(part->head().begin(), 3);
  EXPECT_FALSE(part->has_key() && part->key().has_end());
  EXPECT_TRUE(ParsePart("").ok());
}

TEST(InspectFlagsTest, WhatIsNoRangeIsRefused) {
  for (const char* text : {"a", "1:b", ",", "1,2,3,4,5", "1.5"}) {
    EXPECT_EQ(FieldOf(ParsePart(text).status()), "--part") << text;
  }
}

TEST(InspectFlagsTest, WithoutAViewTheWeightsAreShown) {
  EXPECT_TRUE(ReadQuestion({})->views.weights);
  InspectFlags flags;
  flags.views = {"logits"};
  EXPECT_FALSE(ReadQuestion(flags)->views.weights);
  EXPECT_TRUE(ReadQuestion(flags)->views.logits);
}

TEST(InspectFlagsTest, TilesTakeTwoSidesAndAKnownPooling) {
  InspectFlags flags;
  flags.tile = std::string("4,8");
  flags.pool = std::string("max");
  const auto question = ReadQuestion(flags);
  ASSERT_TRUE(question.ok()) << question.status();
  EXPECT_EQ(question->tiles->query_tile(), 4);
  EXPECT_EQ(question->tiles->key_tile(), 8);
  EXPECT_EQ(question->tiles->pooling(), ::attention::v1::POOLING_MAX);
  flags.pool = std::string("median");
  EXPECT_EQ(FieldOf(ReadQuestion(flags).status()), "--pool");
  flags.tile = std::string("4");
  EXPECT_EQ(FieldOf(ReadQuestion(flags).status()), "--tile");
}

}  // namespace
}  // namespace attn
