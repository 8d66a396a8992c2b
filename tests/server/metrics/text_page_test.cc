#include "server/metrics/text_page.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace attn {
namespace {

// Expected text is written by hand from the description of Prometheus' text
// format 0.0.4.

TEST(TextPage, AFamilyHasItsHelpItsTypeAndItsLines) {
  TextPage page;
  page.Family("a_total", "All of a.", MetricKind::kCounter);
  page.Line("", LabelText({{"code", "OK"}, {"method", "Plan"}}), uint64_t{7});
  page.Line("", "", 0.5);
  EXPECT_EQ(page.text(),
            "# HELP a_total All of a.\n"
            "# TYPE a_total counter\n"
            "a_total{code=\"OK\",method=\"Plan\"} 7\n"
            "a_total 0.5\n");
}

TEST(TextPage, BucketsAreCumulativeAndTheLastIsTheCount) {
  const HistogramBounds bounds({0.5, 2});
  Histogram histogram(bounds);
  for (const double value : {0.25, 0.25, 1.0, 8.0}) histogram.Observe(value);
  TextPage page;
  page.Family("h", "H.", MetricKind::kHistogram);
  page.Lines(LabelText({{"phase", "queue"}}), histogram);
  page.Lines("", histogram);
  EXPECT_EQ(page.text(),
            "# HELP h H.\n"
            "# TYPE h histogram\n"
            "h_bucket{phase=\"queue\",le=\"0.5\"} 2\n"
            "h_bucket{phase=\"queue\",le=\"2\"} 3\n"
            "h_bucket{phase=\"queue\",le=\"+Inf\"} 4\n"
            "h_sum{phase=\"queue\"} 9.5\n"
            "h_count{phase=\"queue\"} 4\n"
            "h_bucket{le=\"0.5\"} 2\n"
            "h_bucket{le=\"2\"} 3\n"
            "h_bucket{le=\"+Inf\"} 4\n"
            "h_sum 9.5\n"
            "h_count 4\n");
}

TEST(TextPage, WhatALabelMayNotHoldIsEscaped) {
  EXPECT_EQ(LabelText({{"l", "a\"b\\c\nd"}}), "l=\"a\\\"b\\\\c\\nd\"");
}

TEST(TextPage, NumbersThatAreNotFiniteHaveTheirNames) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  TextPage page;
  page.Line("x", "", kInfinity);
  page.Line("x", "", -kInfinity);
  page.Line("x", "", std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(page.text(), "x +Inf\nx -Inf\nx NaN\n");
}

TEST(TextPage, NumbersReadBackAsTheSame) {
  for (const double value : {0.1, 1e-300, 1.0 / 3, 123456789012.5, 1e22}) {
    TextPage page;
    page.Line("x", "", value);
    EXPECT_EQ(std::stod(page.text().substr(2)), value);
  }
}

}  // namespace
}  // namespace attn
