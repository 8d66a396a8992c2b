#include "client/load/load_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

// A run of 2 s that offered 200 and answered 150 in time, with latencies of
// 1 to 200 us.
LoadReport Report() {
  LoadReport report;
  report.address = "127.0.0.1:8001";
  report.profile.shape = ParseCallShape("1,4,4,16,16,32").value();
  report.payloads = 4;
  report.connections = 2;
  report.options.rate = 100;
  LoadResult& result = report.result;
  result.window_seconds = 2;
  result.cpu_seconds = 0.5;
  result.offered = 200;
  result.sent = 199;
  result.unsent = 1;
  result.answered = 160;
  result.answered_in_time = 150;
  result.errors[absl::StatusCode::kResourceExhausted] = 39;
  for (int64_t i = 1; i <= 200; ++i) {
    result.latency.Record(i * 1000);
    result.service.Record(500);
    result.slip.Record(i);
  }
  report.verification.verified = 7;
  return report;
}

TEST(LoadReport, JsonHasWhatProgramsReadWithLatencyFromTheIntendedTime) {
  const Json json = Report().ToJson();
  EXPECT_EQ(json["mode"], "open");
  EXPECT_NEAR(json["latency_us"]["p50"], 100, 0.1);
  EXPECT_NEAR(json["latency_us"]["p90"], 180, 0.18);
  EXPECT_NEAR(json["latency_us"]["p99"], 198, 0.2);
  EXPECT_NEAR(json["latency_us"]["p99.9"], 200, 0.2);
  EXPECT_NEAR(json["latency_us"]["p99.99"], 200, 0.2);
  EXPECT_DOUBLE_EQ(json["latency_us"]["max"], 200);
  EXPECT_DOUBLE_EQ(json["latency_us"]["mean"], 100.5);
  EXPECT_DOUBLE_EQ(json["service_us"]["p50"], 0.5);
  EXPECT_DOUBLE_EQ(json["offered_rps"], 100);
  EXPECT_DOUBLE_EQ(json["achieved_rps"], 75);
  EXPECT_EQ(json["errors"], 39);
  EXPECT_EQ(json["errors_by_code"]["RESOURCE_EXHAUSTED"], 39);
  EXPECT_EQ(json["requests"], 200);
  EXPECT_DOUBLE_EQ(json["duration_s"], 2);
  EXPECT_DOUBLE_EQ(json["client"]["cpu_s"], 0.5);
  EXPECT_DOUBLE_EQ(json["client"]["slip_us"]["max"], 0.2);
  EXPECT_EQ(json["client"]["unsent"], 1);
  EXPECT_EQ(json["verified"], 7);
  EXPECT_EQ(json["mismatches"], 0);
}

TEST(LoadReport, JsonKeepsItsKeysWhereNothingWasMeasured) {
  LoadReport report = Report();
  report.result.slip = HdrHistogram();
  const Json json = report.ToJson();
  for (const char* key :
       {"p50", "p90", "p99", "p99.9", "p99.99", "max", "mean"}) {
    EXPECT_TRUE(json["server"]["queue_us"].at(key).is_null()) << key;
    EXPECT_TRUE(json["server"]["compute_us"].at(key).is_null()) << key;
    EXPECT_TRUE(json["client"]["slip_us"].at(key).is_null()) << key;
  }
  EXPECT_EQ(json["server"]["queue_us"]["count"], 0);
}

TEST(LoadReport, JsonIsOneDocumentThatParses) {
  const std::string text = Report().ToJson().dump();
  EXPECT_EQ(Json::parse(text), Report().ToJson());
}

TEST(LoadReport, TheLoopIsNamed) {
  LoadReport report = Report();
  EXPECT_THAT(report.ToText(), HasSubstr("open loop, poisson"));
  report.options.rate = 0;
  report.options.callers = 3;
  EXPECT_THAT(report.ToText(), HasSubstr("closed loop, 3 callers"));
  EXPECT_EQ(report.ToJson()["mode"], "closed");
}

TEST(LoadReport, LessThanNinetyNinePercentAchievedIsAFailure) {
  LoadReport report = Report();
  EXPECT_THAT(report.Failures(), ElementsAre(HasSubstr("75.0 %")));
  EXPECT_EQ(report.ToJson()["passed"], false);
  EXPECT_THAT(report.ToText(), HasSubstr("FAILED"));
  report.result.answered_in_time = 197;
  EXPECT_THAT(report.Failures(), ElementsAre(HasSubstr("98.5 %")));
  report.result.answered_in_time = 198;
  EXPECT_THAT(report.Failures(), IsEmpty());
  EXPECT_EQ(report.ToJson()["passed"], true);
}

TEST(LoadReport, AWrongAnswerIsAFailure) {
  LoadReport report = Report();
  report.result.answered_in_time = 200;
  report.verification.mismatches = 1;
  report.verification.first_mismatch = "element 3";
  EXPECT_THAT(report.Failures(), ElementsAre(HasSubstr("element 3")));
}

TEST(LoadReport, ARunWithoutRequestsIsAFailure) {
  LoadReport report = Report();
  report.result = LoadResult();
  report.result.window_seconds = 1;
  EXPECT_THAT(report.Failures(), ElementsAre(HasSubstr("no request")));
}

}  // namespace
}  // namespace attn
