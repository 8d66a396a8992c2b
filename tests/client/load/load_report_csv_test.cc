#include "client/load/load_report_csv.h"

#include <map>

#include "gtest/gtest.h"
#include "tests/client/load/sample_report.h"

namespace attn {
namespace {

using Record = std::map<std::string, std::string>;

// RFC 4180: cells with commas between them, quoted ones with doubled quotes.
std::vector<std::vector<std::string>> ParseCsv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        row.back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        row.back() += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      EXPECT_TRUE(row.back().empty()) << "a quote within a cell";
      quoted = true;
    } else if (c == ',') {
      row.emplace_back();
    } else if (c == '\r') {
      EXPECT_EQ(text.substr(i, 2), "\r\n");
      ++i;
      rows.push_back(row);
      row.assign(1, "");
    } else {
      EXPECT_NE(c, '\n') << "a line that ends in LF alone";
      row.back() += c;
    }
  }
  EXPECT_FALSE(quoted);
  EXPECT_EQ(row, std::vector<std::string>(1)) << "no end of line";
  return rows;
}

std::vector<Record> Records(const LoadReport& report) {
  const auto rows = ParseCsv(LoadReportCsv(report));
  std::vector<Record> records;
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].size(), rows[0].size());
    Record record;
    for (size_t k = 0; k < rows[i].size(); ++k) {
      EXPECT_TRUE(record.emplace(rows[0][k], rows[i][k]).second) << rows[0][k];
    }
    records.push_back(record);
  }
  return records;
}

double Number(const Record& record, const std::string& name) {
  return std::stod(record.at(name));
}

TEST(LoadReportCsv, AStepIsARow) {
  const auto records = Records(OneStepReport());
  ASSERT_EQ(records.size(), 1u);
  const Record& record = records[0];
  EXPECT_EQ(record.at("step"), "1");
  EXPECT_EQ(record.at("class"), "total");
  EXPECT_EQ(record.at("mode"), "open");
  EXPECT_EQ(record.at("callers"), "");
  EXPECT_DOUBLE_EQ(Number(record, "offered_rps"), 100);
  EXPECT_DOUBLE_EQ(Number(record, "achieved_rps"), 75);
  EXPECT_EQ(record.at("errors"), "39");
  EXPECT_NEAR(Number(record, "latency_p99_us"), 198, 0.2);
  EXPECT_DOUBLE_EQ(Number(record, "latency_max_us"), 200);
  EXPECT_DOUBLE_EQ(Number(record, "service_p99.99_us"), 0.5);
  EXPECT_DOUBLE_EQ(Number(record, "slip_max_us"), 0.2);
  EXPECT_EQ(record.at("queue_p99_us"), "");
  EXPECT_EQ(record.at("verified"), "7");
  EXPECT_EQ(record.at("passed"), "false");
}

TEST(LoadReportCsv, ClassesFollowTheirStep) {
  const auto records = Records(MixedReport());
  ASSERT_EQ(records.size(), 9u);
  EXPECT_EQ(records[3].at("class"), "total");
  EXPECT_EQ(records[4].at("class"), "a,\"b\"");
  EXPECT_EQ(records[5].at("class"), "</script>");
  EXPECT_EQ(records[4].at("step"), "2");
  EXPECT_DOUBLE_EQ(Number(records[4], "offered_rps"), 150);
  EXPECT_DOUBLE_EQ(Number(records[5], "offered_rps"), 50);
  EXPECT_NEAR(Number(records[5], "latency_p99_us"), 15'000, 15);
  // Of the total alone.
  EXPECT_EQ(records[4].at("cpu_s"), "");
  EXPECT_EQ(records[4].at("passed"), "");
  EXPECT_EQ(records[3].at("passed"), "true");
  EXPECT_EQ(records[6].at("passed"), "false");
}

TEST(LoadReportCsv, NoNameIsAFormula) {
  for (const std::string name : {"=1+1", "+1", "-1", "@sum", "=\"x\",1"}) {
    LoadReport report = MixedReport();
    report.classes[0].name = name;
    EXPECT_EQ(Records(report)[1].at("class"), "'" + name);
  }
}

TEST(LoadReportCsv, TimesKeepTheirDigits) {
  LoadReport report = OneStepReport();
  report.steps[0].result.latency.Record(123'456'789'012);
  const auto records = Records(report);
  EXPECT_DOUBLE_EQ(Number(records[0], "latency_max_us"), 123'456'789.012);
}

}  // namespace
}  // namespace attn
