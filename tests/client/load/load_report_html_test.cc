#include "client/load/load_report_html.h"

#include <cctype>

#include "client/load/html_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/load/sample_report.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Reads a page as XML: every tag is closed in order, attributes are quoted, no
// stray < or &. "" if all is well.
class PageReader {
 public:
  explicit PageReader(const std::string& page) : page_(page) {}

  std::string Fault() {
    const std::string kind = "<!DOCTYPE html>\n";
    if (page_.compare(0, kind.size(), kind) != 0) return "no document type";
    at_ = kind.size();
    while (at_ < page_.size()) {
      const std::string fault = page_[at_] == '<' ? Tag() : Text();
      if (!fault.empty()) return fault + " at: " + page_.substr(at_, 60);
    }
    return open_.empty() ? "" : "never closed: " + open_.back();
  }

 private:
  std::string Text() {
    if (page_[at_] == '&') {
      const size_t end = page_.find(';', at_);
      if (end == std::string::npos || end - at_ > 6) return "a stray &";
      at_ = end;
    }
    ++at_;
    return "";
  }

  std::string Name() {
    const size_t begin = at_;
    while (std::isalnum(page_[at_]) != 0 || page_[at_] == '-') ++at_;
    return page_.substr(begin, at_ - begin);
  }

  std::string Tag() {
    ++at_;
    const bool closes = page_[at_] == '/';
    if (closes) ++at_;
    const std::string name = Name();
    if (name.empty()) return "a stray <";
    if (closes) {
      if (open_.empty() || open_.back() != name) return "closed out of order";
      open_.pop_back();
      return page_[at_++] == '>' ? "" : "a closing tag with attributes";
    }
    while (page_[at_] == ' ') {
      ++at_;
      if (Name().empty()) return "no attribute";
      if (page_.compare(at_, 2, "=\"") != 0) return "an unquoted attribute";
      at_ = page_.find('"', at_ + 2) + 1;
      if (at_ == 0) return "an open quote";
    }
    const bool alone = page_[at_] == '/';
    if (alone) ++at_;
    if (page_[at_++] != '>') return "an open tag";
    if (!alone) open_.push_back(name);
    return "";
  }

  const std::string& page_;
  size_t at_ = 0;
  std::vector<std::string> open_;
};

LoadReport SearchReport() {
  LoadReport report = MixedReport();
  report.search = ReportedSearch{};
  report.search->outcome.rates = {
      .held = 200, .failed = 400, .trials = 3, .converged = true};
  return report;
}

LoadReport EmptyReport() {
  LoadReport report = OneStepReport();
  report.steps[0].result = LoadResult();
  return report;
}

TEST(LoadReportHtml, IsWellFormedWhateverIsReported) {
  for (const LoadReport& report :
       {OneStepReport(), MixedReport(), SearchReport(), EmptyReport()}) {
    const std::string page = LoadReportHtml(report);
    EXPECT_EQ(PageReader(page).Fault(), "");
  }
}

TEST(LoadReportHtml, NeedsNothingElse) {
  std::string page = LoadReportHtml(MixedReport());
  const std::string name_space = "xmlns=\"http://www.w3.org/2000/svg\"";
  for (size_t at = page.find(name_space); at != std::string::npos;
       at = page.find(name_space)) {
    page.erase(at, name_space.size());
  }
  for (const char* fetches : {"http:", "https:", "//", "src=", "href=", "url(",
                              "@import", "<script", "<link", "<iframe"}) {
    EXPECT_THAT(page, Not(HasSubstr(fetches))) << fetches;
  }
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
}

TEST(LoadReportHtml, NamesCannotBecomeMarkup) {
  const std::string page = LoadReportHtml(MixedReport());
  EXPECT_THAT(page, Not(HasSubstr("</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<x>")));
  EXPECT_THAT(page, Not(HasSubstr("<a>")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;"));
  // What looks escaped already is a text as any other.
  EXPECT_THAT(page, HasSubstr("inspect &amp;amp;"));
}

TEST(LoadReportHtml, ShowsStepsClassesAndTheSlo) {
  const std::string page = LoadReportHtml(MixedReport());
  for (const char* part :
       {"Achieved by offered rate", "Latency by offered rate", "SLO p99 20ms",
        "Latency by percentile", "Latency over time", "99.9 %",
        "Latency of each class by percentile", "from the actual send",
        "p99 is 30.0 ms, the SLO allows 20.0 ms", "Configuration"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(LoadReportHtml(OneStepReport()), Not(HasSubstr("Steps")));
  EXPECT_THAT(LoadReportHtml(OneStepReport()),
              HasSubstr("39 RESOURCE_EXHAUSTED: full"));
}

TEST(EscapeHtml, LeavesNothingThatMarksUp) {
  EXPECT_EQ(EscapeHtml("<a href='x'>\"&\"</a>\n\t\x01"),
            "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt;   ");
  EXPECT_EQ(EscapeHtml("\u00e4\u4e2d"), "\u00e4\u4e2d");
}

}  // namespace
}  // namespace attn
