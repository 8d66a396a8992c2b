#include "client/cli/heatmap_flags.h"

#include <string>

#include "client/cli/attend_inputs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

AttentionShape Shaped(int64_t heads, int64_t queries, int64_t keys) {
  AttentionShape shape;
  shape.batch = 2;
  shape.q_heads = heads;
  shape.q_length = queries;
  shape.kv_length = keys;
  return shape;
}

std::string HeadsError(const std::string& text) {
  return ParseHeads(text, 8).status().ToString();
}

TEST(HeatmapFlagsTest, HeadsAreNumbersAndRanges) {
  EXPECT_THAT(*ParseHeads("0,2,5-7", 8), ElementsAre(0, 2, 5, 6, 7));
  EXPECT_THAT(*ParseHeads("3", 8), ElementsAre(3));
  // Each once, in order.
  EXPECT_THAT(*ParseHeads("4,2-4,2", 8), ElementsAre(2, 3, 4));
  EXPECT_EQ(ParseHeads("", 8)->size(), 8U);
  EXPECT_EQ(ParseHeads("", 64)->size(), static_cast<size_t>(kMostHeads));
}

TEST(HeatmapFlagsTest, WrongHeadsAreNamed) {
  EXPECT_THAT(HeadsError("8"), HasSubstr("--heads: got \"8\", expected heads "
                                         "of 0-7"));
  EXPECT_THAT(HeadsError("5-2"), HasSubstr("--heads"));
  EXPECT_THAT(HeadsError("-1"), HasSubstr("--heads"));
  EXPECT_THAT(HeadsError("a,b"), HasSubstr("0,2,5-7"));
  EXPECT_THAT(HeadsError("1,"), HasSubstr("--heads"));
}

TEST(HeatmapFlagsTest, RangesAreThoseOfTheShape) {
  HeatmapFlags flags;
  flags.rows = "2:";
  flags.columns = ":5";
  flags.what = "weights";
  flags.pool = "mean";
  const auto question = ReadScoreQuestion(flags, Shaped(2, 6, 9));
  ASSERT_TRUE(question.ok()) << question.status();
  EXPECT_EQ(question->query_begin, 2);
  EXPECT_EQ(question->query_count, 4);
  EXPECT_EQ(question->key_count, 5);
  EXPECT_FALSE(question->logits);
  EXPECT_EQ(question->pooling, v1::POOLING_MEAN);
}

std::string QuestionError(const HeatmapFlags& flags,
                          const AttentionShape& shape) {
  return ReadScoreQuestion(flags, shape).status().ToString();
}

TEST(HeatmapFlagsTest, WrongRangesAreNamed) {
  const AttentionShape shape = Shaped(2, 6, 9);
  for (const char* rows : {"7:", "3:3", "4:2", ":7", "-1:2", "x", "6"}) {
    HeatmapFlags flags;
    flags.rows = rows;
    EXPECT_THAT(QuestionError(flags, shape), HasSubstr("--rows")) << rows;
  }
  HeatmapFlags columns;
  columns.columns = "0:10";
  EXPECT_THAT(QuestionError(columns, shape),
              HasSubstr("--columns: got \"0:10\", expected a part of 0:9"));
  HeatmapFlags batch;
  batch.batch = 2;
  EXPECT_THAT(QuestionError(batch, shape), HasSubstr("--batch"));
  HeatmapFlags limit;
  limit.max_weight = 0;
  EXPECT_THAT(QuestionError(limit, shape), HasSubstr("--max-weight: got 0"));
  EXPECT_THAT(QuestionError({}, Shaped(2, 0, 9)), HasSubstr("nothing to draw"));
}

TEST(HeatmapFlagsTest, TheEndingSaysWhatToWrite) {
  EXPECT_EQ(*KindOfOutput(""), FigureKind::kTerminal);
  EXPECT_EQ(*KindOfOutput("a/b.png"), FigureKind::kPng);
  EXPECT_EQ(*KindOfOutput("B.SVG"), FigureKind::kSvg);
  EXPECT_THAT(KindOfOutput("a.jpg").status().ToString(),
              HasSubstr("--output: got \"a.jpg\", expected a name that ends in "
                        ".png or .svg"));
}

TEST(HeatmapFlagsTest, TokensAreAListOrLines) {
  const ScratchFolder folder;
  EXPECT_THAT(*ReadTokens(folder.Write("a.json", R"([" a", "b"])")),
              ElementsAre("_a", "b"));
  EXPECT_THAT(*ReadTokens(folder.Write("a.txt", "[CLS]\r\n the\n\nend\n")),
              ElementsAre("[CLS]", "_the", "", "end"));
  EXPECT_THAT(*ReadTokens(folder.Write("b.txt", R"(["x", "y"])")),
              ElementsAre("x", "y"));
  EXPECT_THAT(*ReadTokens(folder.Write("c.txt", "42")), ElementsAre("42"));
  // Nothing in them rings or draws on the terminal.
  EXPECT_THAT(*ReadTokens(folder.Write("c.json", R"(["\n\u001b", "\u0007"])")),
              ElementsAre("\\n\\e", "\xEF\xBF\xBD"));
  EXPECT_FALSE(ReadTokens(folder.Write("b.json", "[CLS]\nthe\n")).ok());
}

TEST(HeatmapFlagsTest, QueriesAreTheLastOfTheTokens) {
  const ScratchFolder folder;
  HeatmapFlags flags;
  flags.tokens = folder.Write("t.txt", "a\nb\nc\nd\n");
  const auto names = ReadTokenNames(flags, Shaped(1, 2, 4));
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(names->keys, ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(names->queries, ElementsAre("c", "d"));
  flags.query_tokens = folder.Write("q.txt", "x\ny\n");
  EXPECT_THAT(ReadTokenNames(flags, Shaped(1, 2, 4))->queries,
              ElementsAre("x", "y"));
}

TEST(HeatmapFlagsTest, MoreTokensThanKeysAreAnError) {
  const ScratchFolder folder;
  HeatmapFlags flags;
  flags.tokens = folder.Write("t.txt", "a\nb\nc\n");
  EXPECT_THAT(ReadTokenNames(flags, Shaped(1, 2, 2)).status().ToString(),
              HasSubstr("--tokens: got 3 tokens, expected at most 2"));
}

}  // namespace
}  // namespace attn
