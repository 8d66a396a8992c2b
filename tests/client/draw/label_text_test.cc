#include "client/draw/label_text.h"

#include <string>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr char kBad[] = "\xEF\xBF\xBD";  // U+FFFD

TEST(LabelTextTest, LeavesGoodTextAlone) {
  for (const char* text : {"", "the", "Ġthe", "▁été", "日本語", "🙂 <&>\""}) {
    EXPECT_EQ(CleanText(text), text);
  }
}

TEST(LabelTextTest, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(CleanText("a\xFF"), std::string("a") + kBad);
  EXPECT_EQ(CleanText("\xC3"), kBad);
  EXPECT_EQ(CleanText("\xC3("), std::string(kBad) + "(");
  // Longer than need be, and above the last character.
  EXPECT_EQ(CleanText("\xC0\x80"), std::string(kBad) + kBad);
  EXPECT_EQ(CleanText("\xE0\x80\x80").find('\0'), std::string::npos);
  EXPECT_EQ(CodePoints("\xF4\x90\x80\x80")[0], 0xFFFDU);
}

TEST(LabelTextTest, ReplacesWhatXmlMustNotHold) {
  EXPECT_EQ(CleanText(std::string("a\0b", 3)), std::string("a") + kBad + "b");
  EXPECT_EQ(CleanText("\x1b[31m"), std::string(kBad) + "[31m");
  EXPECT_EQ(CleanText("\n"), kBad);
  EXPECT_EQ(CleanText("\xED\xA0\x80"), kBad);  // a surrogate
  EXPECT_EQ(CleanText("\xEF\xBF\xBF"), kBad);  // U+FFFF
}

TEST(LabelTextTest, CutsBetweenCharacters) {
  const EstimatingRuler ruler;
  const std::string fitted = FitText("ééééééééé", 40, 10, ruler);
  EXPECT_LE(ruler.Width(fitted, 10), 40);
  EXPECT_EQ(CleanText(fitted), fitted);
  EXPECT_EQ(fitted.substr(fitted.size() - 3), "…");
  EXPECT_EQ(FitText("the", 40, 10, ruler), "the");
  EXPECT_EQ(FitText("the", 1, 10, ruler), "");
  EXPECT_EQ(FitText("abcdef", 30, 10, ruler), "abc…");
  EXPECT_EQ(FitText("abcdef", 29, 10, ruler), "ab…");
}

// As a name from outside may be as long as its file, it is not measured once
// for each letter.
TEST(LabelTextTest, LongTextIsMeasuredAFewTimes) {
  class CountingRuler : public EstimatingRuler {
   public:
    double Width(absl::string_view text, int size) const override {
      ++asked;
      return EstimatingRuler::Width(text, size);
    }
    mutable int asked = 0;
  };
  const CountingRuler ruler;
  const std::string fitted = FitText(std::string(4096, 'x'), 110, 10, ruler);
  EXPECT_EQ(fitted.substr(fitted.size() - 4), "x…");
  EXPECT_LT(ruler.asked, 20);
}

}  // namespace
}  // namespace attn
