#include "client/load/load_record.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client/load/load_merge.h"
#include "client/load/load_report_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/load/sample_report.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

// What is told of the report, without the timeline that a record leaves out.
nlohmann::ordered_json Told(LoadReport report) {
  for (LoadStep& step : report.steps) step.result.timeline.clear();
  return LoadReportJson(report);
}

TEST(LoadRecord, IsReadAsWhatWasWritten) {
  for (const LoadReport& report : {OneStepReport(), MixedReport()}) {
    const auto again = ParseLoadRecord(LoadRecord(report), "a.json");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(Told(*again), Told(report));
    for (size_t i = 0; i < report.steps.size(); ++i) {
      EXPECT_EQ(again->steps[i].result.latency.NonEmptyBuckets(),
                report.steps[i].result.latency.NonEmptyBuckets());
    }
  }
}

TEST(LoadRecord, WhatIsNoneIsRefusedByFileAndField) {
  for (const char* text : {"", "{}", "[]", "1", "{\"kind\": \"other\"}"}) {
    const auto status = ParseLoadRecord(text, "a.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("a.json")) << text;
  }
}

// Every value of the record in turn is left out, or of another kind.
TEST(LoadRecord, ADamagedRecordNeverCrashesAndNamesThePlace) {
  LoadReport report = MixedReport();
  report.steps.resize(1);
  report.steps[0].result.classes[1].errors[absl::StatusCode::kAborted] = 1;
  const auto good = nlohmann::json::parse(LoadRecord(report));
  const auto flat = good.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    const nlohmann::json::json_pointer place(pointer);
    for (const nlohmann::json& other :
         {nlohmann::json(nullptr), nlohmann::json("x"), nlohmann::json(-1),
          nlohmann::json(1e300), nlohmann::json::array()}) {
      nlohmann::json damaged = good;
      damaged[place] = other;
      const auto read = ParseLoadRecord(damaged.dump(), "a.json");
      if (read.ok()) continue;  // A text for a text, a number for a number.
      EXPECT_THAT(std::string(read.status().message()), HasSubstr("a.json"))
          << pointer;
    }
  }
}

// What the fields of a record that `change` has been at are refused for; "" if
// they are not.
std::string Refusal(const std::function<void(nlohmann::json&)>& change) {
  auto json = nlohmann::json::parse(LoadRecord(MixedReport()));
  change(json);
  const auto status = ParseLoadRecord(json.dump(), "a.json").status();
  return std::string(status.message());
}

TEST(LoadRecord, NumbersWhoseSumsWouldOverflowAreRefused) {
  for (const auto& [pointer, field] : {
           std::pair("/steps/0/tallies/1/offered", "offered"),
           std::pair("/steps/0/warmup_requests", "warmup_requests"),
           std::pair("/steps/0/options/callers", "callers"),
           std::pair("/steps/0/options/max_in_flight", "max_in_flight"),
           std::pair("/classes/0/payloads", "payloads"),
           std::pair("/processes", "processes"),
           std::pair("/connections", "connections"),
           std::pair("/steps/0/tallies/0/latency_ns/buckets/0/1", "buckets"),
       }) {
    const nlohmann::json::json_pointer place(pointer);
    EXPECT_THAT(Refusal([&](nlohmann::json& json) {
                  json[place] = 3'000'000'000'000'000;
                }),
                HasSubstr(field))
        << pointer;
  }
  // Each bucket could be, all together not.
  EXPECT_THAT(Refusal([](nlohmann::json& json) {
                nlohmann::json& buckets =
                    json["steps"][0]["tallies"][0]["latency_ns"]["buckets"];
                buckets.clear();
                for (int i = 0; i < 100; ++i) {
                  buckets.push_back({i, 3'000'000'000'000});
                }
              }),
              HasSubstr("too many values"));
}

TEST(LoadRecord, ManyClassesAndStepsAreRefusedBeforeTheyAreRead) {
  EXPECT_THAT(Refusal([](nlohmann::json& json) {
                json["steps"] =
                    std::vector<nlohmann::json>(1000, nlohmann::json::object());
              }),
              HasSubstr("a.json.steps: "));
  EXPECT_THAT(Refusal([](nlohmann::json& json) {
                json["classes"] =
                    std::vector<nlohmann::json>(1000, json["classes"][0]);
              }),
              HasSubstr("a.json.classes: "));
  EXPECT_THAT(Refusal([](nlohmann::json& json) {
                json["steps"][0]["tallies"] =
                    std::vector<nlohmann::json>(1000, nullptr);
              }),
              HasSubstr("a.json.steps[0].tallies: "));
  for (const char* list : {"steps", "classes"}) {
    EXPECT_THAT(Refusal([list](nlohmann::json& json) { json[list].clear(); }),
                HasSubstr(list));
  }
}

TEST(LoadRecord, FiguresThatNoRunCanHaveAreRefused) {
  EXPECT_THAT(
      Refusal([](nlohmann::json& json) { json["steps"][0]["window_s"] = 0; }),
      HasSubstr("window_s"));
  for (const double sum : {0.0, 1e300}) {
    EXPECT_THAT(Refusal([sum](nlohmann::json& json) {
                  json["steps"][0]["tallies"][0]["latency_ns"]["sum"] = sum;
                }),
                HasSubstr("do not fit"));
  }
}

TEST(LoadRecord, NamesCannotDrawOnTheTerminal) {
  auto json = nlohmann::json::parse(LoadRecord(MixedReport()));
  json["address"] = "a\x1b[2J\n";
  json["classes"][0]["call"] = "b\r\x7f";
  const auto report = ParseLoadRecord(json.dump(), "a.json");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->address, "a [2J ");
  EXPECT_EQ(report->classes[0].call, "b  ");
}

TEST(LoadMerge, CountsAndRatesAddUpAndHistogramsMerge) {
  LoadReport first = MixedReport();
  LoadReport second = MixedReport();
  second.steps[0].result.classes[0].latency.Record(9'000'000'000);
  second.steps[0].result.latency.Record(9'000'000'000);
  second.started -= absl::Seconds(1);
  const auto merged = MergeReports({{"a.json", first}, {"b.json", second}});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->processes, 2);
  EXPECT_EQ(merged->started, second.started);
  const LoadStep& step = merged->steps[0];
  EXPECT_EQ(step.options.rate, 200);
  EXPECT_EQ(step.result.offered, 200);
  EXPECT_DOUBLE_EQ(step.result.offered_rate(), 200);
  EXPECT_EQ(step.result.latency.count(), 201);
  EXPECT_EQ(step.result.latency.max(), 9'000'000'000);
  EXPECT_EQ(step.result.classes[0].latency.count(), 151);
  EXPECT_EQ(step.verified().verified, 10);
  EXPECT_TRUE(step.result.timeline.empty());
}

TEST(LoadMerge, CallersOfClosedLoopsAddUp) {
  LoadReport report = OneStepReport();
  report.steps[0].options.rate = 0;
  report.steps[0].options.callers = 4;
  const auto merged = MergeReports(
      {{"a.json", report}, {"b.json", report}, {"c.json", report}});
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged->steps[0].options.callers, 12);
  EXPECT_EQ(merged->steps[0].result.error_count(), 3 * 39);
}

TEST(LoadMerge, WhatDoesNotBelongTogetherIsRefusedByFile) {
  const auto difference = [](const std::function<void(LoadReport&)>& change) {
    LoadReport other = MixedReport();
    change(other);
    const auto merged =
        MergeReports({{"a.json", MixedReport()}, {"b.json", other}});
    EXPECT_EQ(merged.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(merged.status().message());
  };
  EXPECT_THAT(difference([](LoadReport& r) { r.steps.pop_back(); }),
              AllOf(HasSubstr("b.json"), HasSubstr("number of steps")));
  EXPECT_THAT(difference([](LoadReport& r) { r.classes[0].call = "y"; }),
              HasSubstr("class"));
  EXPECT_THAT(difference([](LoadReport& r) { r.classes.pop_back(); }),
              HasSubstr("number of classes"));
  EXPECT_THAT(difference([](LoadReport& r) { r.steps[1].options.rate = 0; }),
              HasSubstr("loop"));
  EXPECT_THAT(difference([](LoadReport& r) {
                r.steps[2].options.duration = absl::Seconds(3);
              }),
              HasSubstr("duration"));
  EXPECT_THAT(difference([](LoadReport& r) { r.slo.reset(); }),
              HasSubstr("SLO"));
  EXPECT_FALSE(MergeReports({}).ok());
}

}  // namespace
}  // namespace attn
