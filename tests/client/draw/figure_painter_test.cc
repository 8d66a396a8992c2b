// What the reader sees: the colours of cells.
#include "client/draw/figure_painter.h"

#include <cmath>
#include <limits>
#include <string>

#include "client/draw/colour_map.h"
#include "client/draw/font.h"
#include "client/draw/hatch.h"
#include "client/draw/png_canvas.h"
#include "client/draw/svg_canvas.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/draw/decoded_png.h"
#include "tests/client/draw/sample_figure.h"
#include "tests/client/draw/xml_reader.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

bool IsOf(const ColourMap& map, Rgb colour) {
  for (int i = 0; i < 256; ++i) {
    if (map.At(i / 255.0) == colour) return true;
  }
  return false;
}

class PaintedFigure {
 public:
  explicit PaintedFigure(const AttentionFigure& figure) : figure_(figure) {
    const auto grid =
        ChoosePanelGrid(static_cast<int>(figure.groups.size()), 2,
                        figure.queries.count, figure.keys.count, {});
    EXPECT_TRUE(grid.ok()) << grid.status();
    auto font = Font::Load("");
    EXPECT_TRUE(font.ok()) << font.status();
    layout_ = LayOutFigure(figure, *grid, *font);
    PngCanvas png(layout_.width, layout_.height, *font);
    PaintFigure(figure, layout_, *font, png);
    const ScratchFolder folder;
    EXPECT_TRUE(png.Write(folder.File("a.png")).ok());
    image = DecodePngFile(folder.File("a.png"));
    SvgCanvas canvas(layout_.width, layout_.height);
    PaintFigure(figure, layout_, *font, canvas);
    svg = ReadXml(canvas.ToString());
    EXPECT_EQ(svg.fault, "");
  }

  // A corner of the cell: values are written in its middle.
  Rgb CellOf(size_t panel, int row, int column) const {
    const PixelBox& box = layout_.panels[panel].box;
    return image.At(
        box.x + box.width * column / static_cast<int>(figure_.keys.cells()) + 1,
        box.y + box.height * row / static_cast<int>(figure_.queries.cells()) +
            1);
  }
  bool IsHatch(size_t panel, int row, int column) const {
    const Rgb colour = CellOf(panel, row, column);
    return colour == kMaskedGround || colour == kMaskedStripe;
  }
  const FigureLayout& layout() const { return layout_; }

  DecodedPng image;
  XmlDocument svg;

 private:
  const AttentionFigure& figure_;
  FigureLayout layout_;
};

TEST(FigurePainterTest, TheHeaviestWeightHasTheMapsEnd) {
  const AttentionFigure figure = SampleFigure({});
  const PaintedFigure painted(figure);
  EXPECT_EQ(painted.CellOf(1, 0, 0), ColourMap::Sequential().At(1));
  EXPECT_EQ(painted.CellOf(1, 1, 0), ColourMap::Sequential().At(0.5));
  // Logits from -3 to 3: three are the upper end.
  EXPECT_EQ(painted.CellOf(0, 0, 0), ColourMap::Diverging().At(1));
}

TEST(FigurePainterTest, AZeroLogitHasTheMiddleOfTheMap) {
  AttentionFigure figure = SampleFigure({});
  figure.groups[0].panels[0].values[0] = 0;
  const PaintedFigure painted(figure);
  EXPECT_EQ(painted.CellOf(0, 0, 0), ColourMap::Diverging().At(0.5));
}

TEST(FigurePainterTest, MaskedCellsHaveNoColourOfAMap) {
  const AttentionFigure figure = SampleFigure({});
  const PaintedFigure painted(figure);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (const size_t panel : {0U, 1U}) {
        EXPECT_EQ(painted.IsHatch(panel, i, j), j > i) << i << " " << j;
        if (j <= i) continue;
        EXPECT_FALSE(
            IsOf(ColourMap::Sequential(), painted.CellOf(panel, i, j)));
        EXPECT_FALSE(IsOf(ColourMap::Diverging(), painted.CellOf(panel, i, j)));
      }
    }
  }
  ASSERT_TRUE(painted.layout().masked_swatch.has_value());
  const PixelBox& swatch = *painted.layout().masked_swatch;
  EXPECT_EQ(painted.image.At(swatch.x, swatch.y),
            HatchColourAt(swatch.x, swatch.y));
}

TEST(FigurePainterTest, ASmallWeightIsNotMasked) {
  AttentionFigure figure = SampleFigure({});
  figure.groups[0].panels[1].values[0] = 0;
  const PaintedFigure painted(figure);
  EXPECT_EQ(painted.CellOf(1, 0, 0), ColourMap::Sequential().At(0));
}

TEST(FigurePainterTest, WhatIsNotFiniteIsShownAsSuch) {
  AttentionFigure figure = SampleFigure({});
  const double infinity = std::numeric_limits<double>::infinity();
  figure.groups[0].panels[0].values[0] = infinity;
  figure.groups[0].panels[0].values[4] = -infinity;
  figure.groups[0].panels[1].values[0] = NAN;
  const PaintedFigure painted(figure);
  EXPECT_EQ(painted.CellOf(0, 0, 0), kNotFiniteColour);
  EXPECT_EQ(painted.CellOf(0, 1, 0), kNotFiniteColour);
  EXPECT_EQ(painted.CellOf(1, 0, 0), kNotFiniteColour);
  EXPECT_TRUE(painted.layout().not_finite_swatch.has_value());
}

TEST(FigurePainterTest, RangesBeyondADoubleAreDrawn) {
  const double huge = std::numeric_limits<double>::max();
  const ColourScale scale{
      .label = "logit", .low = -huge, .high = huge, .diverging = true};
  EXPECT_EQ(ColourOf(scale, 0), ColourMap::Diverging().At(0.5));
  EXPECT_EQ(ColourOf(scale, huge), ColourMap::Diverging().At(1));
}

TEST(FigurePainterTest, BarsEndInTheEndsOfTheirMaps) {
  const AttentionFigure figure = SampleFigure({});
  const PaintedFigure painted(figure);
  const PixelBox& bar = painted.layout().bars[1];
  EXPECT_EQ(painted.image.At(bar.x, bar.y), ColourMap::Sequential().At(1));
  EXPECT_EQ(painted.image.At(bar.x, bar.bottom() - 1),
            ColourMap::Sequential().At(0));
}

TEST(FigurePainterTest, TheSvgSaysWhatACellIs) {
  const AttentionFigure figure =
      SampleFigure({.queries = 3, .keys = 3, .tokens = true});
  const PaintedFigure painted(figure);
  std::string titles;
  for (const XmlElement& title : painted.svg.Named("title")) {
    titles += title.text + "\n";
  }
  EXPECT_THAT(titles, HasSubstr("head 0, query 1 \"tokmmmmmmm1\", key 0 "
                                "\"tok0\": weights 0.5\n"));
  EXPECT_THAT(titles, HasSubstr("key 2 \"tokmmmmmmmmmmmmmm2\": masked\n"));
}

TEST(FigurePainterTest, AnSvgOfManyCellsHoldsImages) {
  const AttentionFigure figure = SampleFigure({.queries = 300, .keys = 300});
  const PaintedFigure painted(figure);
  // Two panels and two bars.
  EXPECT_EQ(painted.svg.Named("image").size(), 4U);
  EXPECT_TRUE(painted.svg.Named("title").empty());
}

TEST(FigurePainterTest, TheSvgKeepsItsTextAsText) {
  const AttentionFigure figure = SampleFigure({});
  const PaintedFigure painted(figure);
  std::string texts;
  for (const XmlElement& text : painted.svg.Named("text")) {
    texts += text.text + "\n";
  }
  for (const char* text : {"A sample of attention\n", "head 0\n", "logits\n",
                           "weights\n", "logit (nats)\n", "masked\n",
                           // Written in the cell.
                           "0.50\n"}) {
    EXPECT_THAT(texts, HasSubstr(text));
  }
}

}  // namespace
}  // namespace attn
