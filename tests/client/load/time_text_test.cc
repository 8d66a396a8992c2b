#include "client/load/time_text.h"

#include "engine/core/field_error.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(TimeText, TimesHaveThreeDigitsAndTheUnitThatSuits) {
  EXPECT_EQ(FormatNanos(0), "0 ns");
  EXPECT_EQ(FormatNanos(812), "812 ns");
  EXPECT_EQ(FormatNanos(999.7), "1.00 us");
  EXPECT_EQ(FormatNanos(4210), "4.21 us");
  EXPECT_EQ(FormatNanos(31'240'000), "31.2 ms");
  EXPECT_EQ(FormatNanos(99.96e6), "100 ms");
  EXPECT_EQ(FormatNanos(1.02e9), "1.02 s");
  EXPECT_EQ(FormatNanos(3.6e12), "3600 s");
}

TEST(TimeText, RatesHaveNoExponent) {
  EXPECT_EQ(FormatRate(0.125), "0.125/s");
  EXPECT_EQ(FormatRate(100), "100/s");
  EXPECT_EQ(FormatRate(764.996), "765/s");
  EXPECT_EQ(FormatRate(1'000'000), "1000000/s");
}

TEST(TimeText, LengthsAreTimesOrSeconds) {
  const absl::Duration least = absl::Milliseconds(1);
  EXPECT_EQ(ParseLength("10s", "f", least).value(), absl::Seconds(10));
  EXPECT_EQ(ParseLength("1m30s", "f", least).value(), absl::Seconds(90));
  EXPECT_EQ(ParseLength("1.5", "f", least).value(), absl::Milliseconds(1500));
}

class BadLengthTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BadLengthTest, IsRefusedByName) {
  const auto status =
      ParseLength(GetParam(), "--duration", absl::Milliseconds(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "--duration");
}

INSTANTIATE_TEST_SUITE_P(Lengths, BadLengthTest,
                         ::testing::Values("", "x", "0", "-1s", "nan", "inf",
                                           "25h", "1e99", "10 s"));

}  // namespace
}  // namespace attn
