#include "client/draw/font.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

Font Default() {
  auto font = Font::Load("");
  EXPECT_TRUE(font.ok()) << font.status();
  return *std::move(font);
}

TEST(FontTest, LongerTextIsWider) {
  const Font font = Default();
  EXPECT_EQ(font.Width("", 12), 0);
  EXPECT_GT(font.Width("mm", 12), font.Width("m", 12));
  EXPECT_GT(font.Width("m", 24), 1.9 * font.Width("m", 12));
  EXPECT_GT(font.Width("m", 12), font.Width("i", 12));
}

TEST(FontTest, InkLiesWithinTheMeasuredWidth) {
  const Font font = Default();
  for (const char* text : {"head 3", "logit (nats)", "Ångström", "_the"}) {
    const InkBitmap bitmap = font.Render(text, 12);
    EXPECT_EQ(bitmap.ink.size(),
              static_cast<size_t>(bitmap.width * bitmap.height));
    EXPECT_LE(bitmap.width, font.Width(text, 12) + 4) << text;
    EXPECT_GT(*std::max_element(bitmap.ink.begin(), bitmap.ink.end()), 128)
        << text;
  }
}

// Rows are centred on the capitals' middle, so that labels meet their ticks.
TEST(FontTest, CapitalsAreCentred) {
  const InkBitmap bitmap = Default().Render("H", 40);
  int top = bitmap.height;
  int bottom = 0;
  for (int i = 0; i < bitmap.width * bitmap.height; ++i) {
    if (bitmap.ink[static_cast<size_t>(i)] < 128) continue;
    top = std::min(top, i / bitmap.width);
    bottom = std::max(bottom, i / bitmap.width);
  }
  EXPECT_NEAR(top, bitmap.height - 1 - bottom, 2);
  EXPECT_NEAR(bottom - top, 0.73 * 40, 2);
}

TEST(FontTest, KnowsWhichLettersItLacks) {
  const Font font = Default();
  EXPECT_FALSE(font.Lacks("Ġthe …"));
  EXPECT_TRUE(font.Lacks("日本"));
}

TEST(FontTest, SaysWhatIsWrongWithAFile) {
  const ScratchFolder folder;
  EXPECT_THAT(Font::Load("/no/such.ttf").status().ToString(),
              HasSubstr("/no/such.ttf: this font cannot be read"));
  EXPECT_THAT(Font::Load(folder.Write("a.ttf", "no font")).status().ToString(),
              HasSubstr("a.ttf: this is no font that FreeType reads"));
  EXPECT_FALSE(Font::Load(folder.path()).ok());
}

}  // namespace
}  // namespace attn
