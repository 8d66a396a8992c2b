#include "client/load/load_report.h"

#include <string>

#include "client/load/load_report_json.h"
#include "client/load/load_report_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/load/sample_report.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::ordered_json;

TEST(LoadReport, JsonHasWhatProgramsReadWithLatencyFromTheIntendedTime) {
  const Json json = LoadReportJson(OneStepReport());
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
  // A number: its parts are elsewhere.
  EXPECT_EQ(json["errors"], 39);
  EXPECT_EQ(json["errors_by_code"]["RESOURCE_EXHAUSTED"], 39);
  EXPECT_EQ(json["first_errors"]["RESOURCE_EXHAUSTED"], "full");
  EXPECT_EQ(json["requests"], 200);
  EXPECT_DOUBLE_EQ(json["duration_s"], 2);
  EXPECT_DOUBLE_EQ(json["client"]["cpu_s"], 0.5);
  EXPECT_DOUBLE_EQ(json["client"]["slip_us"]["max"], 0.2);
  EXPECT_EQ(json["client"]["unsent"], 1);
  EXPECT_EQ(json["verified"], 7);
  EXPECT_EQ(json["mismatches"], 0);
  EXPECT_DOUBLE_EQ(json["timeline"][0]["p99_us"], 198);
  EXPECT_FALSE(json.contains("steps"));
  EXPECT_FALSE(json.contains("classes"));
}

TEST(LoadReport, JsonKeepsItsKeysWhereNothingWasMeasured) {
  LoadReport report = OneStepReport();
  report.steps[0].result.slip = HdrHistogram();
  const Json json = LoadReportJson(report);
  for (const char* key :
       {"p50", "p90", "p99", "p99.9", "p99.99", "max", "mean"}) {
    EXPECT_TRUE(json["server"]["queue_us"].at(key).is_null()) << key;
    EXPECT_TRUE(json["server"]["compute_us"].at(key).is_null()) << key;
    EXPECT_TRUE(json["client"]["slip_us"].at(key).is_null()) << key;
  }
  EXPECT_EQ(json["server"]["queue_us"]["count"], 0);
}

TEST(LoadReport, JsonIsOneDocumentThatParses) {
  for (const LoadReport& report : {OneStepReport(), MixedReport()}) {
    const std::string text = LoadReportJson(report).dump();
    EXPECT_EQ(Json::parse(text), LoadReportJson(report));
  }
}

// Which Poisson arrivals of rates that are close may do.
TEST(LoadReport, OfStepsThatOfferedAlikeTheHigherRateIsTheMainOne) {
  LoadReport report = MixedReport();
  report.steps[1].result.offered = report.steps[0].result.offered;
  EXPECT_EQ(report.MainStep(), 1u);
}

TEST(LoadReport, OfSeveralStepsJsonHasThemAllAndTheMainOneOnTop) {
  const Json json = LoadReportJson(MixedReport());
  ASSERT_EQ(json["steps"].size(), 3u);
  // 400/s misses the SLO: the highest that passed is 200/s.
  EXPECT_EQ(json["main_step"], 1);
  EXPECT_DOUBLE_EQ(json["offered_rps"], 200);
  EXPECT_EQ(json["config"]["rate_rps"], 200);
  EXPECT_EQ(json["config"]["slo"], "p99=20ms");
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["steps"][1]["passed"], true);
  EXPECT_EQ(json["steps"][2]["passed"], false);
  EXPECT_DOUBLE_EQ(json["steps"][2]["offered_rps"], 400);
  const Json& classes = json["steps"][0]["classes"];
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0]["name"], "a,\"b\"");
  EXPECT_DOUBLE_EQ(classes[0]["offered_rps"], 75);
  EXPECT_EQ(classes[0]["verified"], 5);
  EXPECT_NEAR(classes[1]["latency_us"]["p99"], 7500, 7.5);
}

TEST(LoadReport, ASearchTellsItsKnee) {
  LoadReport report = MixedReport();
  report.search = ReportedSearch{};
  report.search->outcome.rates = {
      .held = 200, .failed = 400, .trials = 3, .converged = true};
  EXPECT_THAT(report.Failures(), IsEmpty());
  const Json json = LoadReportJson(report);
  EXPECT_EQ(json["search"]["knee_rps"], 200);
  EXPECT_EQ(json["search"]["failed_rps"], 400);
  EXPECT_EQ(json["passed"], true);
  EXPECT_DOUBLE_EQ(json["offered_rps"], 200);
  EXPECT_THAT(LoadReportText(report),
              HasSubstr("knee: 200/s keeps to p99=20ms; 400/s does not"));
  // Wrong answers are never to be expected.
  report.steps[2].verification[0].mismatches = 1;
  EXPECT_THAT(report.Failures(), ElementsAre(HasSubstr("step 3")));
}

TEST(LoadReport, ASearchWithoutAKneeIsAFailure) {
  LoadReport report = MixedReport();
  report.search = ReportedSearch{};
  report.search->outcome.rates = {.failed = 1, .trials = 4, .converged = true};
  EXPECT_THAT(report.Failures(),
              ElementsAre("no knee: even 1/s does not keep to p99=20ms"));
  EXPECT_TRUE(LoadReportJson(report)["search"]["knee_rps"].is_null());
}

TEST(LoadReport, TheLoopIsNamed) {
  LoadReport report = OneStepReport();
  EXPECT_THAT(LoadReportText(report), HasSubstr("open loop, poisson"));
  report.steps[0].options.rate = 0;
  report.steps[0].options.callers = 3;
  EXPECT_THAT(LoadReportText(report), HasSubstr("closed loop, 3 callers"));
  EXPECT_EQ(LoadReportJson(report)["mode"], "closed");
  EXPECT_EQ(LoadReportJson(report)["config"]["callers"], 3);
}

TEST(LoadReport, TextHasARowForEachStepAndClass) {
  const std::string text = LoadReportText(MixedReport());
  EXPECT_THAT(text, HasSubstr("3 steps of an open loop"));
  EXPECT_THAT(text, HasSubstr("\n   1     100.0     100.0       0"));
  EXPECT_THAT(text, HasSubstr("a,\"b\" (weight 3): <x>, 4 payloads"));
  EXPECT_THAT(text, HasSubstr("ok\n"));
  EXPECT_THAT(text, HasSubstr("no: p99 is 30.0 ms, the SLO allows 20.0 ms"));
  EXPECT_THAT(text, HasSubstr("highest that passed: step 2, 200/s"));
  EXPECT_THAT(text, HasSubstr("FAILED"));
}

TEST(LoadReport, LessThanTheRequiredShareIsAFailure) {
  LoadReport report = OneStepReport();
  EXPECT_THAT(report.Failures(), ElementsAre(HasSubstr("75.0 %")));
  EXPECT_EQ(LoadReportJson(report)["passed"], false);
  EXPECT_THAT(LoadReportText(report), HasSubstr("FAILED"));
  report.steps[0].result.answered_in_time = 197;
  EXPECT_THAT(report.Failures(), ElementsAre(HasSubstr("98.5 %")));
  report.steps[0].result.answered_in_time = 198;
  EXPECT_THAT(report.Failures(), IsEmpty());
  EXPECT_EQ(LoadReportJson(report)["passed"], true);
  EXPECT_THAT(LoadReportText(report), Not(HasSubstr("FAILED")));
}

TEST(LoadReport, AWrongAnswerIsAFailure) {
  LoadReport report = OneStepReport();
  report.steps[0].result.answered_in_time = 200;
  report.steps[0].verification[0].mismatches = 1;
  report.steps[0].verification[0].first_mismatch = "element 3";
  EXPECT_THAT(report.Failures(), ElementsAre(HasSubstr("element 3")));
}

TEST(LoadReport, ARunWithoutRequestsIsAFailure) {
  LoadReport report = OneStepReport();
  report.steps[0].result = LoadResult();
  report.steps[0].result.window_seconds = 1;
  EXPECT_THAT(report.Failures(), ElementsAre(HasSubstr("no request")));
  // And can be told in every form.
  EXPECT_TRUE(LoadReportJson(report)["latency_us"]["p99"].is_null());
  EXPECT_THAT(LoadReportText(report), HasSubstr("FAILED"));
}

TEST(LoadReport, ErrorsAreOneLineForEachCode) {
  EXPECT_THAT(ErrorLines(OneStepReport().steps[0].result),
              ElementsAre("39 RESOURCE_EXHAUSTED: full"));
}

TEST(LoadReport, ATesterThatIsLateItselfIsNoted) {
  LoadReport report = OneStepReport();
  EXPECT_THAT(report.Notes(), IsEmpty());
  for (int i = 0; i < 100; ++i) report.steps[0].result.slip.Record(150'000);
  EXPECT_THAT(report.Notes(), ElementsAre(HasSubstr("150 us late at p99")));
}

// A report whose one class has two sessions.
LoadReport ReportWithSessions() {
  LoadReport report = OneStepReport();
  SessionTally tally(2);
  tally.opened = 5;
  tally.forked = 4;
  tally.closed = 4;
  tally.gone = 1;
  tally.lost = 1;
  tally.tokens = 600;
  tally.open.Record(30'000);
  tally.close.Record(20'000);
  tally.steps[0].Record(1'000'000, 90);
  tally.steps[0].Record(6'000'000, 10);
  tally.waves.Add(2, 4);
  tally.waves.Add(2, 4);
  report.steps[0].sessions = {tally};
  return report;
}

TEST(LoadReport, JsonTellsOfSessions) {
  const Json json = LoadReportJson(ReportWithSessions());
  const Json& sessions = json.at("sessions");
  EXPECT_EQ(sessions["opened"], 5);
  EXPECT_EQ(sessions["forked"], 4);
  EXPECT_EQ(sessions["closed"], 4);
  EXPECT_EQ(sessions["gone"], 1);
  EXPECT_EQ(sessions["left_open"], 0);
  EXPECT_EQ(sessions["lost"], 1);
  // In the window's two seconds.
  EXPECT_DOUBLE_EQ(sessions["tokens_per_s"], 300);
  EXPECT_DOUBLE_EQ(sessions["open_us"]["p50"], 30);
  EXPECT_DOUBLE_EQ(sessions["close_us"]["max"], 20);
  EXPECT_NEAR(sessions["greatest_spread"]["p99_over_median"], 6, 0.2);
  EXPECT_EQ(sessions["greatest_spread"]["session"], 0);
  EXPECT_DOUBLE_EQ(sessions["waves"]["mean"], 2);
  EXPECT_DOUBLE_EQ(sessions["waves"]["share_of_ready"], 0.5);
  ASSERT_EQ(sessions["each"].size(), 2u);
  EXPECT_EQ(sessions["each"][0]["steps"], 100);
  EXPECT_TRUE(sessions["each"][1]["p99_us"].is_null());
  EXPECT_EQ(json["errors_by_reason"]["KV_MEMORY"], 30);
  EXPECT_FALSE(LoadReportJson(OneStepReport()).contains("sessions"));
}

TEST(LoadReport, TextTellsOfSessionsToo) {
  const std::string text = LoadReportText(ReportWithSessions());
  EXPECT_THAT(text, HasSubstr("5 opened (4 forks), 4 closed, 1 gone"));
  EXPECT_THAT(text, HasSubstr("1 lost"));
  EXPECT_THAT(text, HasSubstr("300.0/s"));
  EXPECT_THAT(text, HasSubstr("50.0 % of those ready"));
  EXPECT_THAT(text, HasSubstr("30    KV_MEMORY"));
  LoadReport many = ReportWithSessions();
  many.steps.push_back(many.steps[0]);
  EXPECT_THAT(LoadReportText(many), HasSubstr("sessions: 5 opened, 1 lost"));
  EXPECT_THAT(LoadReportText(OneStepReport()), Not(HasSubstr("sessions")));
}

TEST(LoadReport, LostSessionsAndAWideSpreadFailIt) {
  LoadReport report = ReportWithSessions();
  EXPECT_THAT(report.Failures(), ::testing::Contains(HasSubstr("were lost")));
  report.steps[0].sessions[0]->lost = 0;
  EXPECT_THAT(report.Failures(),
              Not(::testing::Contains(HasSubstr("session"))));
  report.most_spread = 3;
  EXPECT_THAT(report.Failures(),
              ::testing::Contains(HasSubstr("3 is allowed")));
}

}  // namespace
}  // namespace attn
