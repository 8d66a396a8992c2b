// `attn capacity` as a user runs it.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class CapacityCommandTest : public ::testing::Test {
 protected:
  // Sessions of one layer and one head; a step takes 1 ms whatever is in it.
  CapacityCommandTest() {
    Json json = {{"name", "plain"},
                 {"measured", "2026-12-01"},
                 {"cores", 2},
                 {"call_seconds", 1e-3},
                 {"layer_seconds", 0},
                 {"payload_byte_seconds", 0},
                 {"first_byte_seconds", 0},
                 {"prefill_multiply_add_seconds", 1e-15},
                 {"bus_bytes_per_second", 1e15},
                 {"service_variation", 0},
                 {"base_bytes", 0},
                 {"header_bytes_in", 0},
                 {"header_bytes_out", 0},
                 {"proxy_call_seconds", 1e-3},
                 {"proxy_byte_seconds", 0}};
    for (const char* dtype : {"f32", "bf16", "f16", "int8"}) {
      json["read"][dtype] = {{"element_seconds", 0},
                             {"multiply_add_seconds", 0}};
    }
    machine_ = folder_.Write("machine.json", json.dump());
  }

  static ProgramResult Capacity(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {ATTN_PROGRAM, "capacity"});
    return RunProgram(arguments);
  }
  ProgramResult OfPlainMachine(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(),
                     {"--machine", machine_, "--layers", "1", "--q-heads", "1",
                      "--kv-heads", "1", "--max-utilisation", "0.501"});
    return Capacity(std::move(arguments));
  }

  ScratchFolder folder_;
  std::string machine_;
};

// Half of two cores make 1000 steps a second: 100 sessions of 10 tokens a
// second.
TEST_F(CapacityCommandTest, TellsHowManyReplicasSessionsNeed) {
  const ProgramResult result =
      OfPlainMachine({"--sessions", "250", "--rate", "10", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json plan = Json::parse(result.out)["plans"][0];
  EXPECT_EQ(plan["most_sessions_per_replica"], 100);
  EXPECT_EQ(plan["replicas"], 3);
  EXPECT_EQ(plan["sessions_per_replica"], 84);
  EXPECT_EQ(plan["binds"], "cores");
  EXPECT_EQ(plan["fits"], true);
  EXPECT_EQ(plan["per_replica"][0]["resource"], "cores");
  EXPECT_NEAR(plan["per_replica"][0]["need"].get<double>(), 0.84, 1e-4);
}

TEST_F(CapacityCommandTest, PrintsATableAndTheAnswer) {
  const ProgramResult result =
      OfPlainMachine({"--sessions", "250", "--rate", "10"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("250 sessions of 4096 tokens, 1 layers"));
  EXPECT_THAT(result.out, HasSubstr("machine: plain, measured 2026-12-01\n"));
  EXPECT_THAT(result.out, HasSubstr("\n3 replicas with 6 cores and 96 GiB"));
  EXPECT_THAT(result.out, HasSubstr("100 at most: what binds is cores\n"));
  EXPECT_THAT(result.out, HasSubstr("--max-session-bytes="));
}

TEST_F(CapacityCommandTest, RatesOfAllSessionsAreDividedAmongThem) {
  const ProgramResult all =
      OfPlainMachine({"--sessions", "250", "--total-rate", "2500", "--json"});
  const ProgramResult each =
      OfPlainMachine({"--sessions", "250", "--rate", "10", "--json"});
  EXPECT_EQ(all.out, each.out);
  EXPECT_EQ(all.exit_code, 0) << all.err;
}

TEST_F(CapacityCommandTest, TellsHowManySessionsReplicasHold) {
  const ProgramResult result =
      OfPlainMachine({"--replicas", "4", "--rate", "10", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out)["plans"][0]["sessions"], 400);
}

TEST_F(CapacityCommandTest, TooFewReplicasAreExitCodeOne) {
  const ProgramResult result =
      OfPlainMachine({"--replicas", "4", "--sessions", "401", "--rate", "10"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "attn: 4 replicas do not hold 401 sessions: 101 each, and 100 "
            "fit\n");
  const ProgramResult slow =
      OfPlainMachine({"--sessions", "1", "--p99", "500us"});
  EXPECT_EQ(slow.exit_code, 1);
  EXPECT_THAT(slow.err, StartsWith("attn: no replica holds even one session: "
                                   "p99 of a step needs 0.001"));
}

TEST_F(CapacityCommandTest, SeveralNumbersMakeATable) {
  const ProgramResult result = OfPlainMachine(
      {"--sessions", "100,200", "--tokens", "64,128", "--rate", "10"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nsessions  tokens  tokens/s each"));
  EXPECT_THAT(result.out, HasSubstr("\n     100      64 "));
  EXPECT_THAT(result.out, HasSubstr("\n     200     128 "));
}

// A proxy's core passes on as many as a core computes: four replicas of two
// cores are beyond one of four.
TEST_F(CapacityCommandTest, ASweepTellsWhereTheProxyBecomesTheLimit) {
  const ProgramResult result =
      OfPlainMachine({"--sweep-replicas", "1,4", "--rate", "10", "--placement",
                      "even", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json rows = Json::parse(result.out)["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["proxied"]["sessions"], 100);
  EXPECT_EQ(rows[0]["proxied"]["binds"], "cores");
  EXPECT_EQ(rows[1]["direct"]["sessions"], 400);
  EXPECT_EQ(rows[1]["direct"]["binds"], "cores");
  EXPECT_EQ(rows[1]["proxied"]["sessions"], 200);
  EXPECT_EQ(rows[1]["proxied"]["binds"], "proxy cores");
  EXPECT_GE(rows[0]["direct"]["p50_seconds"].get<double>(), 1e-3);
}

TEST_F(CapacityCommandTest, ASweepIsTheSameEachTime) {
  const auto sweep = [this](const std::string& seed) {
    return OfPlainMachine({"--sweep-replicas", "1,30", "--seed", seed}).out;
  };
  EXPECT_EQ(sweep("5"), sweep("5"));
  EXPECT_NE(sweep("5"), sweep("6"));
}

TEST_F(CapacityCommandTest, WhatIsWrongIsOneLineThatNamesTheFlag) {
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {{}, "--sessions: got nothing"},
      {{"--sessions", "0"}, "--sessions: got 0"},
      {{"--sessions", "-1"}, "--sessions: got -1"},
      {{"--sessions", "9223372036854775807"}, "--sessions: got 9223372036854"},
      {{"--sessions", "x"}, "--sessions"},
      {{"--sessions", "1", "--tokens", "0"}, "--tokens: got 0"},
      {{"--sessions", "1", "--tokens", "999999999999"}, "--tokens: got 9999"},
      {{"--sessions", "1", "--rate", "-2"}, "--rate: got -2"},
      {{"--sessions", "1", "--rate", "nan"}, "--rate: got nan"},
      {{"--sessions", "1", "--layers", "0"}, "--layers: got 0"},
      {{"--sessions", "1", "--q-heads", "9"}, "--q-heads: got 9"},
      {{"--sessions", "1", "--kv-dtype", "f64"}, "--kv-dtype"},
      {{"--sessions", "1", "--memory-per-replica", "0"},
       "--memory-per-replica: got 0 GiB"},
      {{"--sessions", "1", "--network-gbps", "-1"},
       "--network-gbps: got -1 Gb/s"},
      {{"--sessions", "1", "--network-gbps", "inf"}, "--network-gbps"},
      {{"--sessions", "1", "--p99", "soon"}, "--p99"},
      {{"--sessions", "1", "--cores-per-replica", "0"},
       "--cores-per-replica: got 0"},
      {{"--sessions", "1", "--machine", "no.json"}, "no.json: No such file"},
      {{"--sessions", "1", "--seed", "2"}, "--seed: got a value without"},
      {{"--total-rate", "2", "--replicas", "1"}, "--total-rate: got a value"},
      {{"--sessions", "1", "--rate", "1", "--total-rate", "2"},
       "--rate cannot stand with --total-rate"},
      {{"--sessions", "1", "--total-rate", "nan"}, "--total-rate: got nan"},
      {{"--sessions", "2", "--total-rate", "-1"}, "--total-rate: got -1"},
      {{"--sessions", "1", "--memory-bandwidth", "0"},
       "--memory-bandwidth: got 0"},
      {{"--replicas", "0"}, "--replicas: got 0"},
      {{"--sweep-replicas", "1,1001"}, "--sweep-replicas: got 1001"},
      {{"--sweep-replicas", "1", "--sessions", "5"}, "--sessions: got a value"},
      {{"--sweep-replicas", "1", "--proxy-cores", "0"}, "--proxy-cores: got 0"},
  };
  for (const auto& wrong : cases) {
    const ProgramResult result = Capacity(wrong.arguments);
    EXPECT_EQ(result.exit_code, 2) << wrong.says;
    EXPECT_THAT(result.err, HasSubstr(wrong.says));
    EXPECT_THAT(result.err, StartsWith("attn: "));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

// Nine million rows took 3 GB, and minutes.
TEST_F(CapacityCommandTest, ATableIsNoLargerThanSomebodyReads) {
  std::string ones = "1";
  for (int i = 1; i < 101; ++i) ones += ",1";
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {{"--sessions", ones, "--tokens", ones}, "--tokens: got 101 by 101"},
      {{"--sweep-replicas", ones}, "--sweep-replicas: got 101 values"},
  };
  for (const auto& large : cases) {
    const ProgramResult result = Capacity(large.arguments);
    EXPECT_EQ(result.exit_code, 2) << large.says;
    EXPECT_THAT(result.err, HasSubstr(large.says));
  }
}

}  // namespace
}  // namespace attn
