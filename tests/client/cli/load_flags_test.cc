#include "client/cli/load_flags.h"

#include <algorithm>

#include "CLI/CLI.hpp"
#include "client/cli/load_presenter.h"
#include "client/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What `attn load <arguments>` is asked to do.
LoadFlags Given(std::vector<std::string> arguments) {
  CLI::App app;
  LoadFlags flags;
  AddLoadFlags(app, flags);
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  NoteGivenFlags(app, flags);
  return flags;
}

LoadJob Job(const std::vector<std::string>& arguments) {
  auto job = ReadLoadFlags(Given(arguments));
  EXPECT_TRUE(job.ok()) << job.status();
  return *std::move(job);
}

TEST(LoadFlags, ARateIsOneStepOfAnOpenLoop) {
  const LoadPlan plan = Job({"--rate", "50", "--duration", "3"}).plan;
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_TRUE(plan.steps[0].open());
  EXPECT_EQ(plan.steps[0].rate, 50);
  EXPECT_EQ(plan.steps[0].duration, absl::Seconds(3));
  EXPECT_FALSE(plan.slo.has_value());
  EXPECT_FALSE(plan.search.has_value());
}

TEST(LoadFlags, CallersAreAClosedLoop) {
  const LoadPlan plan = Job({"--closed", "4"}).plan;
  EXPECT_FALSE(plan.steps[0].open());
  EXPECT_EQ(plan.steps[0].callers, 4);
}

TEST(LoadFlags, StepsAndRampsAreAStepForEachRate) {
  EXPECT_EQ(Job({"--steps", "100,200,400"}).plan.steps.at(2).rate, 400);
  EXPECT_EQ(Job({"--ramp", "100:500:5"}).plan.steps.at(3).rate, 400);
}

TEST(LoadFlags, AnSloWithARateIsAThreshold) {
  for (const std::vector<std::string>& pace :
       {std::vector<std::string>{"--rate", "5"}, {"--steps", "5,6"}}) {
    std::vector<std::string> arguments = pace;
    arguments.insert(arguments.end(), {"--slo", "p99=20ms"});
    const LoadPlan plan = Job(arguments).plan;
    EXPECT_TRUE(plan.slo.has_value());
    EXPECT_FALSE(plan.search.has_value());
  }
}

TEST(LoadFlags, AnSloAloneIsASearch) {
  const LoadPlan plan = Job({"--slo", "p99=20ms", "--slo-range", "10:500",
                             "--slo-tolerance", "2%", "--slo-runs", "9"})
                            .plan;
  ASSERT_TRUE(plan.search.has_value());
  EXPECT_EQ(plan.search->range->to, 500);
  EXPECT_DOUBLE_EQ(plan.search->tolerance, 0.02);
  EXPECT_EQ(plan.search->most_runs, 9);
  ASSERT_EQ(plan.steps.size(), 1u);
}

TEST(LoadFlags, AProfileBringsClassesAndWeights) {
  const ScratchFolder folder;
  const std::string path = folder.Write(
      "mix.json", R"([{"name": "a", "weight": 3, "shape": [1,1,1,2,2,4]},
                      {"name": "b", "shape": [1,1,1,4,4,4]}])");
  const LoadJob job = Job({"--profile", path, "--steps", "5,6"});
  ASSERT_EQ(job.classes.size(), 2u);
  for (const LoadOptions& step : job.plan.steps) {
    EXPECT_EQ(step.weights, (std::vector<double>{3, 1}));
  }
}

TEST(LoadFlags, AProfileThatIsNotThereIsNamed) {
  const auto job = ReadLoadFlags(Given({"--rate", "5", "--profile", "/none"}));
  EXPECT_THAT(std::string(job.status().message()), StartsWith("/none"));
}

struct BadFlags {
  std::vector<std::string> arguments;
  // What the error must begin with.
  std::string names;
};

void PrintTo(const BadFlags& bad, std::ostream* out) {
  for (const std::string& argument : bad.arguments) *out << argument << " ";
}

class BadFlagsTest : public ::testing::TestWithParam<BadFlags> {};

// By the command line, or when what it says is read.
absl::Status Refusal(const std::vector<std::string>& arguments) {
  try {
    return ReadLoadFlags(Given(arguments)).status();
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

TEST_P(BadFlagsTest, AreRefusedByName) {
  const absl::Status status = Refusal(GetParam().arguments);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith(GetParam().names));
}

INSTANTIATE_TEST_SUITE_P(
    Flags, BadFlagsTest,
    ::testing::Values(
        BadFlags{{}, "--rate"}, BadFlags{{"--duration", "1s"}, "--rate"},
        BadFlags{{"--rate", "5", "--closed", "1"}, "--closed"},
        BadFlags{{"--rate", "5", "--steps", "1"}, "--steps"},
        BadFlags{{"--steps", "5", "--ramp", "1:2:2"}, "--ramp"},
        BadFlags{{"--closed", "5", "--ramp", "1:2:2"}, "--ramp"},
        BadFlags{{"--closed", "5", "--arrivals", "poisson"}, "--arrivals"},
        BadFlags{{"--closed", "5", "--max-in-flight", "7"}, "--max-in-flight"},
        BadFlags{{"--closed", "5", "--slo", "p99=1s"}, "--slo"},
        BadFlags{{"--rate", "5", "--slo-range", "1:2"}, "--slo-range"},
        BadFlags{{"--rate", "5", "--slo", "p99=1s", "--slo-range", "1:2"},
                 "--slo-range"},
        BadFlags{{"--rate", "5", "--slo-tolerance", "1"}, "--slo-tolerance"},
        BadFlags{{"--steps", "5", "--slo", "p9=1s", "--slo-runs", "3"},
                 "--slo-runs"},
        BadFlags{{"--slo", "p99=1s", "--slo-tolerance", "0"},
                 "--slo-tolerance"},
        BadFlags{{"--slo", "p99=1s", "--slo-tolerance", "x%"},
                 "--slo-tolerance"},
        BadFlags{{"--slo", "p99=1s", "--slo-range", "9"}, "--slo-range"},
        BadFlags{{"--slo", "p99=1s", "--histogram-out", "h"},
                 "--histogram-out"},
        BadFlags{{"--slo", "p99=1s", "--slo-range", ""}, "--slo-range"},
        BadFlags{{"--slo", "p99"}, "--slo"}, BadFlags{{"--slo", ""}, "--slo"},
        BadFlags{{"--rate", "5", "--slo", ""}, "--slo"},
        BadFlags{{"--steps", "x"}, "--steps"},
        BadFlags{{"--steps", ""}, "--steps"},
        BadFlags{{"--ramp", "1:2"}, "--ramp"},
        BadFlags{{"--rate", "5", "--arrivals", "uniform"}, "--arrivals"},
        BadFlags{{"--rate", "5", "--duration", "0"}, "--duration"},
        BadFlags{{"--rate", "5", "--warmup", "-1s"}, "--warmup"},
        BadFlags{{"--rate", "5", "--shape", "1,2"}, "shape"},
        BadFlags{{"--rate", "5", "--dtype", "i8"}, "--dtype"},
        BadFlags{{"--rate", "5", "--profile", "p", "--shape", "1,1,1,1,1,1"},
                 "--shape"},
        BadFlags{{"--rate", "5", "--profile", "p", "--dtype", "f32"},
                 "--dtype"},
        BadFlags{{"--rate", "5", "--profile", "p", "--causal"}, "--causal"},
        BadFlags{{"--rate", "5", "--profile", "p", "--payloads", "4"},
                 "--payloads"}));

TEST(LoadFlags, MergingRunsNothing) {
  EXPECT_TRUE(CheckMergeFlags(Given({"--merge", "a,b", "--csv", "c"})).ok());
  for (const std::vector<std::string>& beside :
       {std::vector<std::string>{"--rate", "5"},
        {"--slo", "p99=1s"},
        {"--profile", "p"},
        {"--duration", "1s"}}) {
    std::vector<std::string> arguments = beside;
    arguments.insert(arguments.end(), {"--merge", "a"});
    EXPECT_THAT(std::string(CheckMergeFlags(Given(arguments)).message()),
                StartsWith(beside[0]));
  }
}

TEST(LoadFlags, ReportsThatCannotBeWrittenAreKnownBefore) {
  const ScratchFolder folder;
  EXPECT_TRUE(CheckReportFiles(Given({"--html", folder.File("a.html")})).ok());
  EXPECT_THAT(
      std::string(CheckReportFiles(Given({"--csv", folder.File("no/a.csv")}))
                      .message()),
      StartsWith("--csv"));
  EXPECT_THAT(std::string(CheckReportFiles(Given({"--csv", folder.File("a"),
                                                  "--html", folder.File("a")}))
                              .message()),
              StartsWith("--html"));
  // What stands there is kept until there is something new.
  const std::string kept = folder.Write("old.csv", "old");
  EXPECT_TRUE(CheckReportFiles(Given({"--csv", kept})).ok());
  EXPECT_EQ(ReadFile(kept, 10).value(), "old");
}

TEST(LoadPresenter, ProgressIsOneLine) {
  LoadProgress progress{.warming_up = true};
  EXPECT_EQ(DescribeProgress("step 1/2  100/s", progress),
            "step 1/2  100/s  warming up");
  progress = {.seconds_left = 6.2,
              .window_seconds = 4,
              .offered = 410,
              .answered = 400,
              .errors = 3,
              .in_flight = 7,
              .p99 = 1'240'000};
  EXPECT_EQ(DescribeProgress("step 1/2  100/s", progress),
            "step 1/2  100/s  7 s left  100.0/s answered  p99 1.24 ms  3 "
            "errors");
  progress.seconds_left = 0;
  EXPECT_THAT(DescribeProgress("run 3", progress),
              HasSubstr("waiting for 7 answers"));
}

TEST(LoadFlags, SessionsMakeTheCallAStepOfSessions) {
  const LoadJob job =
      Job({"--sessions", "8", "--shape", "1,4,2,1,64,16", "--closed", "8",
           "--layers", "2", "--kv-dtype", "bf16", "--chunk", "16", "--shared",
           "32", "--session-steps", "5", "--stream", "--most-spread", "3"});
  const CallProfile& call = job.classes.at(0).call;
  EXPECT_EQ(call.kind, CallKind::kSession);
  EXPECT_EQ(call.sessions.sessions, 8);
  EXPECT_EQ(call.sessions.layers, 2);
  EXPECT_EQ(call.sessions.kv_dtype, DType::kBF16);
  EXPECT_EQ(call.sessions.chunk, 16);
  EXPECT_EQ(call.sessions.shared, 32);
  EXPECT_EQ(call.sessions.steps, 5);
  EXPECT_TRUE(call.sessions.stream);
  EXPECT_EQ(job.plan.most_spread, 3);
}

TEST(LoadFlags, WhatIsOfSessionsNeedsThem) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--layers", "2"},     {"--kv-dtype", "bf16"},   {"--chunk", "4"},
      {"--shared", "4"},     {"--session-steps", "4"}, {"--stream"},
      {"--most-spread", "3"}};
  for (std::vector<std::string> arguments : wrong) {
    const std::string flag = arguments[0];
    arguments.insert(arguments.end(), {"--closed", "1"});
    EXPECT_THAT(std::string(ReadLoadFlags(Given(arguments)).status().message()),
                StartsWith(flag + ":"));
  }
}

TEST(LoadFlags, SessionsThatCannotBeAreRefusedByTheirFlag) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--shape", "2,4,2,1,64,16"}, "--shape:"},
      {{"--dtype", "f64"}, "--dtype:"},
      {{"--shape", "1,4,2,1,64,16", "--shared", "65"}, "--shared:"},
      {{"--histogram-out", "a.json"}, "--histogram-out:"},
      {{"--profile", "mix.json"}, "--sessions:"}};
  for (const auto& [rest, begins] : wrong) {
    std::vector<std::string> arguments = {"--closed", "1", "--sessions", "2"};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    EXPECT_THAT(std::string(ReadLoadFlags(Given(arguments)).status().message()),
                StartsWith(begins));
  }
}

}  // namespace
}  // namespace attn
