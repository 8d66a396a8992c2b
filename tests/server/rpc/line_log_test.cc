#include "server/rpc/line_log.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/server/rpc/test_pipe.h"

namespace attn {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

CallRecord HostileRecord() {
  CallRecord record;
  record.method = "Attend";
  record.request_id = "a\"b\\c\nd";
  record.variant = "dot_softmax";
  record.shape = "q[1, 2]";
  record.total = absl::Microseconds(1500);
  record.received_bytes = 42;
  record.status = absl::InvalidArgumentError("q.shape: got\ttab");
  return record;
}

// On a busy machine too nothing is given up.
LineLog PatientLog(LogFormat format) {
  return LineLog(format, LineLog::StandardError(format, absl::Minutes(5)));
}

class LineLogTest : public ::testing::Test {
 protected:
  LineLog Make(LogFormat format) {
    return LineLog(format, [this](const std::string& line) { lines_ += line; });
  }
  std::string lines_;
};

TEST_F(LineLogTest, ARequestIsOneLineOfValidJson) {
  Make(LogFormat::kJson).Request(HostileRecord());
  EXPECT_EQ(std::count(lines_.begin(), lines_.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(lines_);
  EXPECT_EQ(json["event"], "request");
  EXPECT_EQ(json["id"], "a\"b\\c\nd");
  EXPECT_EQ(json["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(json["message"], "q.shape: got\ttab");
  EXPECT_EQ(json["total_us"], 1500);
  EXPECT_EQ(json["received_bytes"], 42);
}

TEST_F(LineLogTest, ARequestIsOneLineOfText) {
  Make(LogFormat::kText).Request(HostileRecord());
  EXPECT_EQ(std::count(lines_.begin(), lines_.end(), '\n'), 1);
  EXPECT_THAT(lines_, HasSubstr(" request id=\"a\\\"b\\\\c\\nd\""));
  EXPECT_THAT(lines_, HasSubstr("total_us=1500.0"));
}

TEST_F(LineLogTest, ATracedRequestNamesItsTrace) {
  CallRecord record = HostileRecord();
  Make(LogFormat::kJson).Request(record);
  EXPECT_FALSE(nlohmann::json::parse(lines_).contains("trace"));
  lines_.clear();
  record.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  Make(LogFormat::kJson).Request(record);
  EXPECT_EQ(nlohmann::json::parse(lines_)["trace"], record.trace_id);
}

TEST_F(LineLogTest, ARequestOfATenantNamesIt) {
  CallRecord record = HostileRecord();
  Make(LogFormat::kJson).Request(record);
  EXPECT_FALSE(nlohmann::json::parse(lines_).contains("tenant"));
  lines_.clear();
  record.tenant = "alice";
  Make(LogFormat::kText).Request(record);
  EXPECT_THAT(lines_, HasSubstr(" tenant=\"alice\""));
}

TEST_F(LineLogTest, EventsCarryTheirSeverity) {
  Make(LogFormat::kText).Info("started");
  EXPECT_THAT(lines_, HasSubstr(" info started\n"));
  lines_.clear();
  Make(LogFormat::kText).Warning("careful");
  EXPECT_THAT(lines_, HasSubstr(" warning careful\n"));
  lines_.clear();
  Make(LogFormat::kJson).Error("failed");
  EXPECT_EQ(nlohmann::json::parse(lines_)["event"], "error");
}

TEST(StandardErrorTest, HoldsEveryLineOnceTheLogHasGone) {
  ::testing::internal::CaptureStderr();
  {
    const LineLog log = PatientLog(LogFormat::kText);
    for (int i = 0; i < 100; ++i) log.Info("one of many");
    log.Info("the last");
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 101);
  EXPECT_THAT(said, EndsWith(" info the last\n"));
}

// Of a log that nobody reads for a while, what is lost is told in its format.
TEST(StandardErrorTest, LostLinesAreToldByAWarning) {
  constexpr int kLines = 20000;
  TestPipe pipe;
  const int stderr_before = dup(STDERR_FILENO);
  dup2(pipe.writing_end(), STDERR_FILENO);
  int read = 0;
  int lost = 0;
  {
    const LineLog log = PatientLog(LogFormat::kJson);
    for (int i = 0; i < kLines; ++i) log.Info(std::string(100, '.'));
    while (read + lost < kLines) {
      const auto line = nlohmann::json::parse(pipe.ReadLine());
      if (line["event"] == "warning") {
        lost += std::stoi(line["message"].get<std::string>());
      } else {
        ++read;
      }
    }
  }
  dup2(stderr_before, STDERR_FILENO);
  close(stderr_before);
  EXPECT_GT(lost, 0);
  EXPECT_EQ(read + lost, kLines);
}

}  // namespace
}  // namespace attn
