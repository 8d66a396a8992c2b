#include "client/cli/heatmap_figure.h"

#include <cmath>
#include <limits>
#include <string>

#include "client/draw/colour_map.h"
#include "client/draw/figure_painter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two queries, two keys: the first query sees one key.
SeenScores SeenTriangle() {
  SeenScores seen;
  seen.heads = {{.head = 3,
                 .logits = {-2, 7, 0.5, 1},
                 .weights = {1, 0, 0.25, 0.75},
                 .masked = {false, true, false, false}}};
  return seen;
}

ScoreQuestion QuestionOfTwo() {
  ScoreQuestion question;
  question.heads = {3};
  question.query_count = 2;
  question.key_count = 2;
  return question;
}

TEST(HeatmapFigureTest, ScalesAreOfWhatCanBeSeen) {
  const AttentionFigure figure =
      MakeFigure(SeenTriangle(), QuestionOfTwo(), {}, {});
  ASSERT_EQ(figure.scales.size(), 2U);
  // Centred on 0; the masked 7 is no part of it.
  EXPECT_TRUE(figure.scales[0].diverging);
  EXPECT_EQ(figure.scales[0].low, -2);
  EXPECT_EQ(figure.scales[0].high, 2);
  EXPECT_EQ(figure.scales[0].label, "logit (nats)");
  EXPECT_FALSE(figure.scales[1].diverging);
  EXPECT_EQ(figure.scales[1].low, 0);
  EXPECT_EQ(figure.scales[1].high, 1);
  EXPECT_EQ(figure.groups[0].title, "head 3");
}

TEST(HeatmapFigureTest, OneScaleIsSharedByAllHeads) {
  SeenScores seen = SeenTriangle();
  seen.heads.push_back(seen.heads[0]);
  seen.heads[1].head = 4;
  seen.heads[1].logits[0] = -9;
  ScoreQuestion question = QuestionOfTwo();
  question.heads = {3, 4};
  EXPECT_EQ(MakeFigure(seen, question, {}, {}).scales[0].high, 9);
}

TEST(HeatmapFigureTest, NegativeWeightsAreCentredOnZero) {
  SeenScores seen = SeenTriangle();
  seen.heads[0].weights[0] = -0.5;
  const AttentionFigure figure = MakeFigure(seen, QuestionOfTwo(), {}, {});
  EXPECT_TRUE(figure.scales[1].diverging);
  EXPECT_EQ(figure.scales[1].low, -0.75);
}

TEST(HeatmapFigureTest, ScalesAreNeverEmpty) {
  SeenScores seen = SeenTriangle();
  seen.heads[0].weights = {0, 0, 0, 0};
  seen.heads[0].logits = {NAN, NAN, NAN, NAN};
  for (const ColourScale& scale :
       MakeFigure(seen, QuestionOfTwo(), {}, {}).scales) {
    EXPECT_LT(scale.low, scale.high);
  }
}

// Half of the least number is 0: colours were looked up by 0 / 0.
TEST(HeatmapFigureTest, ScalesOfTheLeastNumbersHaveColours) {
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  SeenScores seen = SeenTriangle();
  seen.heads[0].logits = {0, 0, 0, kLeast};
  const AttentionFigure figure =
      MakeFigure(seen, QuestionOfTwo(), {}, {.weight = kLeast, .logit = {}});
  for (const ColourScale& scale : figure.scales) {
    ASSERT_GT(scale.high / 2, scale.low / 2);
    EXPECT_EQ(ColourOf(scale, 0), scale.diverging
                                      ? ColourMap::Diverging().At(0.5)
                                      : ColourMap::Sequential().At(0));
  }
}

// A file may be called so, and a server may call its pipeline so.
TEST(HeatmapFigureTest, TitlesDrawNothingOnTheTerminal) {
  SeenScores seen = SeenTriangle();
  seen.report.set_pipeline("p\x1b[2J");
  AttentionFigure figure = MakeFigure(seen, QuestionOfTwo(), {}, {});
  figure.title = "t\x1b[2J";
  EXPECT_THAT(FigureToText(figure, /*colour=*/false), Not(HasSubstr("\x1b")));
}

TEST(HeatmapFigureTest, TheBarSaysHowCellsArePooled) {
  ScoreQuestion question = QuestionOfTwo();
  question.query_count = 16;
  question.key_count = 16;
  question.query_step = 8;
  question.key_step = 8;
  const AttentionFigure figure = MakeFigure(SeenTriangle(), question, {}, {});
  EXPECT_EQ(figure.scales[0].label, "logit (nats), max of 8 × 8");
  EXPECT_EQ(figure.scales[1].label, "weight, max of 8 × 8");
  EXPECT_EQ(figure.keys.cells(), 2);
}

TEST(HeatmapFigureTest, ALimitEndsTheScaleAndIsSaid) {
  const AttentionFigure figure = MakeFigure(SeenTriangle(), QuestionOfTwo(), {},
                                            {.weight = 0.5, .logit = 8});
  EXPECT_EQ(figure.scales[1].high, 0.5);
  EXPECT_EQ(figure.scales[1].label, "weight, up to 0.5");
  EXPECT_EQ(figure.scales[0].low, -8);
  // No value is beyond it.
  EXPECT_EQ(figure.scales[0].label, "logit (nats)");
}

TEST(HeatmapFigureTest, OnlyWhatIsAskedForIsDrawn) {
  ScoreQuestion question = QuestionOfTwo();
  question.logits = false;
  SeenScores seen = SeenTriangle();
  seen.heads[0].logits.clear();
  const AttentionFigure figure = MakeFigure(seen, question, {}, {});
  ASSERT_EQ(figure.scales.size(), 1U);
  EXPECT_EQ(figure.groups[0].panels[0].title, "weights");
}

TEST(HeatmapFigureTest, TheTerminalShowsMaskedAndNotFiniteCells) {
  SeenScores seen = SeenTriangle();
  seen.heads[0].logits[3] = std::numeric_limits<double>::infinity();
  const std::string text = FigureToText(
      MakeFigure(seen, QuestionOfTwo(), {{"the", "cat"}, {"the", "cat"}}, {}),
      /*colour=*/false);
  EXPECT_THAT(text, HasSubstr("head 3: queries down, keys across\n"));
  EXPECT_THAT(text, HasSubstr("the 0   ▁·"));
  EXPECT_THAT(text, HasSubstr("cat 1   █?"));
  EXPECT_THAT(text, HasSubstr("? not finite (NaN, inf)\n"));
  EXPECT_THAT(FigureToText(MakeFigure(SeenTriangle(), QuestionOfTwo(), {}, {}),
                           /*colour=*/false),
              Not(HasSubstr("not finite")));
}

TEST(HeatmapFigureTest, JsonCountsAndBounds) {
  SeenScores seen = SeenTriangle();
  seen.heads[0].weights[2] = NAN;
  const ScoreQuestion question = QuestionOfTwo();
  const AttentionFigure figure = MakeFigure(seen, question, {}, {});
  const nlohmann::json document = FigureToJson(figure, question);
  EXPECT_EQ(document["heads"], nlohmann::json({3}));
  EXPECT_EQ(document["panels"]["logits"]["min"], -2);
  EXPECT_EQ(document["panels"]["logits"]["max"], 1);
  EXPECT_EQ(document["panels"]["logits"]["masked"], 1);
  EXPECT_EQ(document["panels"]["weights"]["not_finite"], 1);
  EXPECT_EQ(document["panels"]["weights"]["colours"], "sequential");
  EXPECT_EQ(document["keys"]["cells"], 2);
  EXPECT_EQ(DescribeFigure(figure),
            "logits -2 to 1, weights 0.75 to 1 (1 cells not finite); 1 of 4 "
            "cells masked");
}

}  // namespace
}  // namespace attn
