#include "client/cli/text_table.h"

#include <limits>

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(TextTableTest, NumbersStandRightAndWordsLeft) {
  TextTable table({"head", "key"});
  table.AddRow({"0", "_He"});
  table.AddRow({"10", "é"});
  EXPECT_EQ(table.ToString(),
            "head  key\n"
            "   0  _He\n"
            "  10  é\n");
}

TEST(TextTableTest, WidthCountsCharactersNotBytes) {
  EXPECT_EQ(DisplayWidth("é█"), 2U);
  EXPECT_EQ(PadLeft("é", 3), "  é");
  EXPECT_EQ(PadRight("é", 3), "é  ");
  EXPECT_EQ(PadLeft("long", 2), "long");
}

TEST(TextTableTest, UnitsAreScaled) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(256.0 * 1024 * 1024), "256 MiB");
  EXPECT_EQ(FormatFlops(2.5e9), "2.5 GFLOP");
  EXPECT_EQ(FormatNumber(0.123456), "0.1235");
  EXPECT_EQ(FormatNumber(-std::numeric_limits<double>::infinity()), "-inf");
}

}  // namespace
}  // namespace attn
