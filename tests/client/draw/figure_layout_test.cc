// Nothing overlaps, and everything lies within the figure.
#include "client/draw/figure_layout.h"

#include <string>
#include <vector>

#include "client/draw/font.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/draw/sample_figure.h"

namespace attn {
namespace {

struct LayoutCase {
  std::string name;
  SampleShape shape;
  FigureSize size;
};

void PrintTo(const LayoutCase& layout_case, std::ostream* out) {
  *out << layout_case.name;
}

class FigureLayoutCase : public ::testing::TestWithParam<LayoutCase> {
 protected:
  // The figure in the cells that the grid makes of it.
  FigureLayoutCase() {
    SampleShape shape = GetParam().shape;
    const auto grid = ChoosePanelGrid(shape.groups, 2, shape.queries,
                                      shape.keys, GetParam().size);
    EXPECT_TRUE(grid.ok()) << grid.status();
    shape.query_step = grid->query_step;
    shape.key_step = grid->key_step;
    figure_ = SampleFigure(shape);
    auto font = Font::Load("");
    EXPECT_TRUE(font.ok()) << font.status();
    font_ = std::make_unique<Font>(*std::move(font));
    layout_ = LayOutFigure(figure_, *grid, *font_);
  }

  AttentionFigure figure_;
  std::unique_ptr<Font> font_;
  FigureLayout layout_;
};

TEST_P(FigureLayoutCase, NoTextOverlapsAnother) {
  const std::vector<FigureText>& texts = layout_.texts;
  for (size_t i = 0; i < texts.size(); ++i) {
    const PixelBox box = BoxOf(texts[i], *font_);
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(box.Overlaps(BoxOf(texts[j], *font_)))
          << texts[i].text << " and " << texts[j].text;
    }
  }
}

TEST_P(FigureLayoutCase, NoTextLiesOnAPanelOrABar) {
  for (const FigureText& text : layout_.texts) {
    const PixelBox box = BoxOf(text, *font_);
    for (const PlacedPanel& panel : layout_.panels) {
      EXPECT_FALSE(box.Overlaps(panel.box)) << text.text;
    }
    for (const PixelBox& bar : layout_.bars) {
      EXPECT_FALSE(box.Overlaps(bar)) << text.text;
    }
  }
}

TEST_P(FigureLayoutCase, EverythingLiesWithinTheFigure) {
  const auto expect_inside = [this](const PixelBox& box,
                                    const std::string& what) {
    EXPECT_GE(box.x, 0) << what;
    EXPECT_GE(box.y, 0) << what;
    EXPECT_LE(box.right(), layout_.width) << what;
    EXPECT_LE(box.bottom(), layout_.height) << what;
  };
  for (const FigureText& text : layout_.texts) {
    expect_inside(BoxOf(text, *font_), text.text);
  }
  for (const PlacedPanel& panel : layout_.panels) {
    expect_inside(panel.box, "panel");
  }
  for (const PixelBox& bar : layout_.bars) expect_inside(bar, "bar");
  if (layout_.masked_swatch) expect_inside(*layout_.masked_swatch, "swatch");
}

TEST_P(FigureLayoutCase, KeepsWithinItsSize) {
  EXPECT_LE(layout_.width, GetParam().size.max_size);
  EXPECT_LE(layout_.height, GetParam().size.max_size);
}

TEST_P(FigureLayoutCase, PanelsStandApartAndHoldWholeCells) {
  ASSERT_EQ(layout_.panels.size(), 2U * figure_.groups.size());
  for (size_t i = 0; i < layout_.panels.size(); ++i) {
    const PixelBox& box = layout_.panels[i].box;
    EXPECT_EQ(box.width % figure_.keys.cells(), 0);
    EXPECT_EQ(box.height % figure_.queries.cells(), 0);
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(box.Overlaps(layout_.panels[j].box)) << i << " " << j;
    }
  }
}

const LayoutCase kCases[] = {
    {"OneCell", {.queries = 1, .keys = 1}, {}},
    {"EightTokens", {.queries = 8, .keys = 8, .tokens = true}, {}},
    {"EightTokensSmall",
     {.queries = 8, .keys = 8, .tokens = true},
     {.max_size = 700}},
    {"HundredTokens", {.queries = 100, .keys = 100, .tokens = true}, {}},
    {"EightHeads", {.groups = 8, .queries = 64, .keys = 64}, {}},
    {"FiveHeadsWithTokens",
     {.groups = 5, .queries = 24, .keys = 24, .tokens = true},
     {}},
    {"SixteenHeadsOfTen", {.groups = 16, .queries = 10, .keys = 10}, {}},
    {"Pooled", {.queries = 4096, .keys = 4096}, {}},
    {"PooledHeads", {.groups = 7, .queries = 4096, .keys = 4096}, {}},
    {"VeryLong", {.queries = 32768, .keys = 32768}, {}},
    {"Decode", {.queries = 1, .keys = 4096}, {}},
    {"DecodeHeads", {.groups = 16, .queries = 1, .keys = 512}, {}},
    {"Tall", {.queries = 2000, .keys = 3}, {}},
    {"TinyCells", {.queries = 6, .keys = 6, .tokens = true}, {.cell_size = 2}},
    {"Large", {.queries = 4096, .keys = 4096}, {.max_size = 3000}},
};

INSTANTIATE_TEST_SUITE_P(Shapes, FigureLayoutCase, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

TEST(FigureLayoutTest, LongTitlesAreCut) {
  AttentionFigure figure = SampleFigure({});
  figure.title = std::string(5000, 'x');
  figure.groups[0].title = std::string(5000, 'y');
  const auto grid = ChoosePanelGrid(1, 2, 4, 4, {});
  ASSERT_TRUE(grid.ok());
  const EstimatingRuler ruler;
  const FigureLayout layout = LayOutFigure(figure, *grid, ruler);
  EXPECT_LT(layout.width, 1600);
  for (const FigureText& text : layout.texts) {
    EXPECT_LE(BoxOf(text, ruler).right(), layout.width);
  }
}

TEST(FigureLayoutTest, TheLegendSaysOnlyWhatIsThere) {
  AttentionFigure figure = SampleFigure({.queries = 1, .keys = 3});
  const auto grid = ChoosePanelGrid(1, 2, 1, 3, {});
  ASSERT_TRUE(grid.ok());
  const EstimatingRuler ruler;
  EXPECT_FALSE(LayOutFigure(figure, *grid, ruler).masked_swatch.has_value());
  figure.groups[0].panels[0].masked[1] = true;
  const FigureLayout layout = LayOutFigure(figure, *grid, ruler);
  EXPECT_TRUE(layout.masked_swatch.has_value());
  EXPECT_FALSE(layout.not_finite_swatch.has_value());
}

}  // namespace
}  // namespace attn
