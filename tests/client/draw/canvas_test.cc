// Both canvases draw the same.
#include "client/draw/canvas.h"

#include <string>

#include "absl/strings/escaping.h"
#include "client/draw/colour_map.h"
#include "client/draw/font.h"
#include "client/draw/hatch.h"
#include "client/draw/png_canvas.h"
#include "client/draw/svg_canvas.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/draw/decoded_png.h"
#include "tests/client/draw/xml_reader.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

constexpr Rgb kRed{200, 0, 0};
constexpr Rgb kWhite{255, 255, 255};

Font LoadedFont() {
  auto font = Font::Load("");
  EXPECT_TRUE(font.ok()) << font.status();
  return *std::move(font);
}

DecodedPng Written(PngCanvas& canvas) {
  const ScratchFolder folder;
  const std::string path = folder.File("a.png");
  const absl::Status status = canvas.Write(path);
  EXPECT_TRUE(status.ok()) << status;
  return DecodePngFile(path);
}

TEST(PngCanvasTest, FillsBoxesAndLeavesTheRestWhite) {
  const Font font = LoadedFont();
  // More rows than a band has.
  PngCanvas canvas(40, 200, font);
  canvas.Fill({10, 50, 20, 100}, kRed);
  const DecodedPng image = Written(canvas);
  ASSERT_EQ(image.width, 40);
  ASSERT_EQ(image.height, 200);
  for (int y = 0; y < 200; ++y) {
    for (int x = 0; x < 40; ++x) {
      const bool inside = x >= 10 && x < 30 && y >= 50 && y < 150;
      ASSERT_EQ(image.At(x, y), inside ? kRed : kWhite) << x << " " << y;
    }
  }
}

TEST(PngCanvasTest, CellsKeepHardEdgesAndShowTheHatchBelow) {
  const Font font = LoadedFont();
  PngCanvas canvas(30, 20, font);
  const PixelBox box{2, 3, 24, 12};
  canvas.Fill(box, HatchPaint{});
  // Red, nothing / blue, green.
  canvas.Cells(
      box,
      {2, 2, {200, 0, 0, 255, 9, 9, 9, 0, 0, 0, 200, 255, 0, 200, 0, 255}});
  const DecodedPng image = Written(canvas);
  for (int y = 0; y < 12; ++y) {
    for (int x = 0; x < 24; ++x) {
      const Rgb below = HatchColourAt(x + 2, y + 3);
      const Rgb expected = y < 6 ? (x < 12 ? kRed : below)
                                 : (x < 12 ? Rgb{0, 0, 200} : Rgb{0, 200, 0});
      ASSERT_EQ(image.At(x + 2, y + 3), expected) << x << " " << y;
    }
  }
}

struct InkBounds {
  int left = 1000;
  int right = -1;
  int top = 1000;
  int bottom = -1;
};

InkBounds BoundsOfText(TextAlign align, bool upward) {
  const Font font = LoadedFont();
  PngCanvas canvas(200, 200, font);
  canvas.Text({.text = "HHHH",
               .x = 100,
               .y = 100,
               .size = 20,
               .align = align,
               .upward = upward,
               .colour = kRed});
  const DecodedPng image = Written(canvas);
  InkBounds bounds;
  for (int y = 0; y < 200; ++y) {
    for (int x = 0; x < 200; ++x) {
      if (image.At(x, y) == kWhite) continue;
      bounds.left = std::min(bounds.left, x);
      bounds.right = std::max(bounds.right, x);
      bounds.top = std::min(bounds.top, y);
      bounds.bottom = std::max(bounds.bottom, y);
    }
  }
  return bounds;
}

TEST(PngCanvasTest, TextBeginsStandsOrEndsAtItsPoint) {
  const InkBounds start = BoundsOfText(TextAlign::kStart, false);
  EXPECT_NEAR(start.left, 100, 4);
  EXPECT_NEAR((start.top + start.bottom) / 2, 100, 2);
  const InkBounds end = BoundsOfText(TextAlign::kEnd, false);
  EXPECT_NEAR(end.right, 100, 4);
  const InkBounds middle = BoundsOfText(TextAlign::kMiddle, false);
  EXPECT_NEAR((middle.left + middle.right) / 2, 100, 3);
}

TEST(PngCanvasTest, UpwardTextIsReadFromBelow) {
  const InkBounds start = BoundsOfText(TextAlign::kStart, true);
  EXPECT_NEAR(start.bottom, 100, 4);
  EXPECT_NEAR((start.left + start.right) / 2, 100, 2);
  const InkBounds end = BoundsOfText(TextAlign::kEnd, true);
  EXPECT_NEAR(end.top, 100, 4);
}

TEST(PngCanvasTest, SaysWhyAFileCannotBeWritten) {
  const Font font = LoadedFont();
  PngCanvas canvas(4, 4, font);
  EXPECT_THAT(canvas.Write("/no/such/a.png").ToString(),
              HasSubstr("/no/such/a.png: No such file"));
  EXPECT_THAT(canvas.Write("/dev/full").ToString(),
              HasSubstr("/dev/full: No space"));
}

TEST(SvgCanvasTest, IsWellFormedWhateverTheTextsAre) {
  SvgCanvas canvas(100, 50);
  canvas.Fill({1, 2, 3, 4}, kRed, "a < b & \"c\" ]]>");
  canvas.Fill({5, 6, 7, 8}, HatchPaint{});
  canvas.Text({.text = "</text><script>&amp;", .x = 5, .y = 9, .size = 10});
  const XmlDocument document = ReadXml(canvas.ToString());
  ASSERT_EQ(document.fault, "");
  EXPECT_EQ(document.elements[0].name, "svg");
  EXPECT_EQ(document.elements[0].attributes.at("width"), "100");
  EXPECT_EQ(document.Named("title")[0].text, "a < b & \"c\" ]]>");
  EXPECT_EQ(document.Named("text")[0].text, "</text><script>&amp;");
  EXPECT_TRUE(document.Named("script").empty());
}

TEST(SvgCanvasTest, BoxesHaveTheirPlacesAndPaints) {
  SvgCanvas canvas(100, 50);
  canvas.Fill({1, 2, 3, 4}, kRed);
  canvas.Fill({5, 6, 7, 8}, HatchPaint{});
  const auto boxes = ReadXml(canvas.ToString()).Named("rect");
  // The hatch's ground, the white one, and these.
  ASSERT_EQ(boxes.size(), 4U);
  EXPECT_EQ(boxes[2].attributes.at("x"), "1");
  EXPECT_EQ(boxes[2].attributes.at("height"), "4");
  EXPECT_EQ(boxes[2].attributes.at("fill"), "#c80000");
  EXPECT_EQ(boxes[3].attributes.at("fill"), "url(#masked)");
}

TEST(SvgCanvasTest, CellsAreAnImageWithinTheFile) {
  SvgCanvas canvas(100, 50);
  canvas.Cells({1, 2, 30, 40}, {2, 1, {200, 0, 0, 255, 9, 9, 9, 0}});
  const auto images = ReadXml(canvas.ToString()).Named("image");
  ASSERT_EQ(images.size(), 1U);
  const std::string link = images[0].attributes.at("xlink:href");
  const std::string prefix = "data:image/png;base64,";
  ASSERT_EQ(link.substr(0, prefix.size()), prefix);
  std::string bytes;
  ASSERT_TRUE(absl::Base64Unescape(link.substr(prefix.size()), &bytes));
  const DecodedPng image = DecodePng(bytes);
  ASSERT_EQ(image.width, 2);
  EXPECT_EQ(image.At(0, 0), kRed);
  EXPECT_EQ(image.AlphaAt(0, 0), 255);
  EXPECT_EQ(image.AlphaAt(1, 0), 0);
}

TEST(SvgCanvasTest, SaysWhyAFileCannotBeWritten) {
  SvgCanvas canvas(4, 4);
  EXPECT_THAT(canvas.Write("/no/such/a.svg").ToString(),
              HasSubstr("/no/such/a.svg: No such file"));
  EXPECT_THAT(canvas.Write("/dev/full").ToString(),
              HasSubstr("/dev/full: No space"));
}

}  // namespace
}  // namespace attn
