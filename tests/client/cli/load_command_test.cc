// `attn load` as a user runs it, against a server in this process.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/library/session_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/app/server.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class LoadCommandTest : public ::testing::Test {
 protected:
  LoadCommandTest() : log_(LogFormat::kText, [](const std::string&) {}) {
    ServerOptions options;
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 1;
    auto server = Server::Start(options, log_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~LoadCommandTest() override { server_->Hurry(); }

  // A short load of small calls.
  ProgramResult Load(const std::vector<std::string>& arguments,
                     bool json = false) const {
    std::vector<std::string> all = {ATTN_PROGRAM, "--address",
                                    server_->grpc_addresses()[0]};
    if (json) all.emplace_back("--json");
    all.emplace_back("load");
    all.insert(all.end(), arguments.begin(), arguments.end());
    return RunProgram(all);
  }

  // A machine that is busy may not keep up, which is exit code 1: here only
  // what is told counts.
  static void ExpectTold(const ProgramResult& result) {
    ASSERT_GE(result.exit_code, 0);
    ASSERT_LE(result.exit_code, 1) << result.err;
  }

  std::vector<std::string> Short(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--shape", "1,1,1,4,4,8", "--duration",
                                       "500ms", "--warmup", "100ms"});
    return arguments;
  }

  std::vector<v1::SessionInfo> SessionsOnServer() const {
    const auto client =
        SessionClient::Connect({.address = server_->grpc_addresses()[0]});
    auto sessions = client->List();
    EXPECT_TRUE(sessions.ok()) << sessions.status();
    return sessions.ok() ? *sessions : std::vector<v1::SessionInfo>();
  }
  // Whether so many sessions have made steps after their first tokens.
  bool Stepped(size_t sessions) const {
    const std::vector<v1::SessionInfo> open = SessionsOnServer();
    return open.size() == sessions &&
           std::all_of(open.begin(), open.end(), [](const auto& session) {
             return session.next_step() > 3;
           });
  }

  static std::string Contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  ScratchFolder folder_;
  LineLog log_;
  std::unique_ptr<Server> server_;
};

TEST_F(LoadCommandTest, JsonHasTheKeysThatProgramsRead) {
  const ProgramResult result = Load(Short({"--closed", "2"}), true);
  ExpectTold(result);
  const Json json = Json::parse(result.out);
  for (const char* key : {"p50", "p99", "p99.9"}) {
    EXPECT_TRUE(json["latency_us"][key].is_number()) << key;
    EXPECT_TRUE(json["service_us"][key].is_number()) << key;
  }
  EXPECT_TRUE(json["offered_rps"].is_number());
  EXPECT_TRUE(json["achieved_rps"].is_number());
  EXPECT_EQ(json["errors"], 0);
  EXPECT_GT(json["verified"], 0);
}

TEST_F(LoadCommandTest, StepsAreRowsInEveryReport) {
  const std::string csv = folder_.File("out.csv");
  const std::string html = folder_.File("out.html");
  const ProgramResult result = Load(Short(
      {"--steps", "20,40", "--slo", "p99=60s", "--csv", csv, "--html", html}));
  ExpectTold(result);
  EXPECT_THAT(result.out, HasSubstr("\n   1 "));
  EXPECT_THAT(result.out, HasSubstr("\n   2 "));
  const std::string rows = Contents(csv);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 3);
  EXPECT_THAT(Contents(html), StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(Contents(html), HasSubstr("Latency by offered rate"));
}

TEST_F(LoadCommandTest, AMissedSloIsExitCodeOneAndOneLine) {
  const ProgramResult result =
      Load(Short({"--rate", "20", "--slo", "p50=1ns"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("attn: p50 is "));
  EXPECT_THAT(result.err, HasSubstr("the SLO allows 1 ns\n"));
}

TEST_F(LoadCommandTest, ASearchWithoutAKneeIsExitCodeOne) {
  const ProgramResult result =
      Load(Short({"--slo", "p50=1ns", "--slo-range", "20:100"}), true);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("attn: no knee: even 20/s"));
  const Json json = Json::parse(result.out);
  EXPECT_TRUE(json["search"]["knee_rps"].is_null());
  EXPECT_EQ(json["steps"].size(), 1u);
}

// The first round of payloads, which is sent by the search's probe.
TEST_F(LoadCommandTest, WhatIsVerifiedOfAProbeCounts) {
  const ProgramResult result =
      Load(Short({"--slo", "p50=1ns", "--slo-range", "20:100", "--verify-every",
                  "1000000000"}),
           true);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_GT(Json::parse(result.out)["verified"], 0);
}

TEST_F(LoadCommandTest, AFullDiskCostsNoOtherReport) {
  const std::string html = folder_.File("out.html");
  const ProgramResult result =
      Load(Short({"--closed", "1", "--csv", "/dev/full", "--html", html}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("attn: /dev/full: "));
  EXPECT_THAT(result.out, HasSubstr("achieved"));
  EXPECT_THAT(Contents(html), StartsWith("<!DOCTYPE html>"));
}

TEST_F(LoadCommandTest, ASearchPrintsEachRunAndItsAnswer) {
  const ProgramResult result =
      Load(Short({"--slo", "max=60s", "--slo-range", "4:8"}));
  ExpectTold(result);
  EXPECT_THAT(result.out, HasSubstr("search for the highest rate"));
  EXPECT_THAT(result.out, HasSubstr("one caller at a time: "));
  EXPECT_THAT(result.out, HasSubstr("\n   1 "));
  // Eight calls in a second: nearly any machine keeps up with that.
  if (result.exit_code == 0) {
    EXPECT_THAT(result.out, HasSubstr("knee: at or above 8/s"));
  }
}

TEST_F(LoadCommandTest, AProfileIsReportedByClass) {
  const std::string profile = folder_.Write(
      "mix.json",
      R"([{"name": "tiny", "weight": 2, "shape": [1, 1, 1, 4, 4, 8]},
          {"name": "look", "kind": "inspect", "shape": [1, 1, 1, 4, 4, 8],
           "causal": true, "priority": "low"}])");
  const ProgramResult result =
      Load({"--profile", profile, "--closed", "2", "--duration", "500ms",
            "--warmup", "0", "--verify-every", "1"},
           true);
  ExpectTold(result);
  const Json classes = Json::parse(result.out)["classes"];
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0]["name"], "tiny");
  EXPECT_GT(classes[0]["verified"], 0);
  EXPECT_GT(classes[1]["answered"], 0);
  EXPECT_EQ(classes[1]["verified"], 0);
}

TEST_F(LoadCommandTest, RecordsOfTwoProcessesMerge) {
  const std::string a = folder_.File("a.json");
  const std::string b = folder_.File("b.json");
  int64_t requests = 0;
  for (const std::string& file : {a, b}) {
    const ProgramResult run =
        Load(Short({"--closed", "1", "--histogram-out", file}), true);
    ExpectTold(run);
    requests += Json::parse(run.out)["requests"].get<int64_t>();
  }
  const ProgramResult merged = Load({"--merge", a + "," + b}, true);
  ExpectTold(merged);
  const Json json = Json::parse(merged.out);
  EXPECT_EQ(json["requests"], requests);
  EXPECT_EQ(json["latency_us"]["count"], requests);
  EXPECT_EQ(json["config"]["processes"], 2);
  EXPECT_EQ(json["config"]["callers"], 2);
}

TEST_F(LoadCommandTest, WhatAFailedCallSaidIsOneLine) {
  const std::string file = folder_.File("a.json");
  ExpectTold(Load(Short({"--closed", "1", "--histogram-out", file})));
  Json record = Json::parse(Contents(file));
  record["steps"][0]["tallies"][0]["errors"].push_back(
      Json{{"code", 8}, {"count", 1}, {"first", "full\n\x1b[31mred"}});
  const std::string changed = folder_.Write("b.json", record.dump());
  const ProgramResult merged = Load({"--merge", changed});
  EXPECT_THAT(merged.err,
              HasSubstr("attn: 1 RESOURCE_EXHAUSTED: full [31mred\n"));
}

TEST_F(LoadCommandTest, ACallThatTheServerRefusesIsOneLine) {
  const ProgramResult result =
      Load({"--rate", "20", "--shape", "1,3,2,4,4,8", "--verify-every", "0"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, StartsWith("attn: INVALID_ARGUMENT: "));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
}

TEST_F(LoadCommandTest, WithoutATerminalThereIsNoProgressLine) {
  const ProgramResult result = Load(Short({"--closed", "1"}));
  ExpectTold(result);
  EXPECT_EQ(result.err.find_first_of("\r\x1b"), std::string::npos);
}

TEST_F(LoadCommandTest, SessionsAreCountedAndClosed) {
  for (const bool stream : {false, true}) {
    std::vector<std::string> arguments = {
        "--closed",     "3",        "--sessions", "3",          "--shape",
        "1,2,1,2,40,8", "--layers", "2",          "--kv-dtype", "bf16",
        "--chunk",      "16",       "--shared",   "20",         "--duration",
        "500ms",        "--warmup", "50ms",       "--causal"};
    if (stream) arguments.emplace_back("--stream");
    const ProgramResult result = Load(arguments, true);
    ExpectTold(result);
    const Json json = Json::parse(result.out);
    const Json& sessions = json.at("sessions");
    // Three forks of one.
    EXPECT_EQ(sessions["opened"], 4);
    EXPECT_EQ(sessions["forked"], 3);
    EXPECT_EQ(sessions["closed"], 4);
    EXPECT_EQ(sessions["lost"], 0);
    EXPECT_EQ(sessions["tokens"], 2 * json["answered"].get<int64_t>());
    int64_t steps = 0;
    for (const Json& one : sessions.at("each")) {
      steps += one.at("steps").get<int64_t>();
      EXPECT_LE(one.at("median_us"), one.at("p99_us"));
    }
    EXPECT_EQ(steps, json["answered"]);
    EXPECT_GE(sessions["greatest_spread"]["p99_over_median"], 1);
    EXPECT_EQ(json["errors"], 0);
    EXPECT_EQ(json["mismatches"], 0);
    EXPECT_THAT(SessionsOnServer(), ::testing::IsEmpty());
  }
}

TEST_F(LoadCommandTest, ASpreadBeyondTheMostIsExitCodeOne) {
  // No two of so many steps take the same time.
  const ProgramResult result =
      Load({"--closed", "1", "--sessions", "1", "--shape", "1,2,1,1,8,8",
            "--duration", "500ms", "--warmup", "0s", "--most-spread", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("the steps of session 0"));
  EXPECT_THAT(result.out, HasSubstr("1 opened (0 forks), 1 closed"));
}

TEST_F(LoadCommandTest, AnInterruptEndsTheLoadAndClosesItsSessions) {
  const ProgramResult result = RunProgram(
      {ATTN_PROGRAM, "--address", server_->grpc_addresses()[0], "--json",
       "load", "--closed", "2", "--sessions", "2", "--shape", "1,2,1,1,8,8",
       "--duration", "1h", "--warmup", "0s"},
      {}, [this](pid_t process) {
        while (!Stepped(2)) {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        kill(process, SIGINT);
      });
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("interrupted"));
  const Json json = Json::parse(result.out);
  EXPECT_LT(json["duration_s"], 3600);
  EXPECT_GT(json["answered"], 0);
  EXPECT_EQ(json["answered"], json["requests"]);
  EXPECT_EQ(json["sessions"]["closed"], 2);
  EXPECT_THAT(SessionsOnServer(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace attn
