// What a real server adds to a call: the same call through attn-server and in
// this process, a tiny call beside a bare gRPC echo of as many bytes, and the
// time from start to SERVING.
//
// The servers are processes of their own on the loopback; one caller waits for
// each answer. Rounds are interleaved: what disturbs one disturbs all.
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/load/call_profile.h"
#include "engine/engine.h"
#include "nlohmann/json.hpp"
#include "tests/bench/child_process.h"
#include "tests/bench/in_process_call.h"
#include "tests/bench/probe.h"
#include "tests/bench/statistics.h"

namespace attn {
namespace {

constexpr char kEchoMethod[] = "/bench.Echo/Echo";
constexpr char kLargeShape[] = "1,8,8,512,512,64";
constexpr char kTinyShape[] = "1,4,4,16,16,32";
constexpr auto kPollEvery = std::chrono::milliseconds(1);
constexpr auto kLongestStart = std::chrono::seconds(60);

struct BenchFlags {
  std::string bin;
  int rounds = 9;
  int large_calls = 30;
  int tiny_calls = 500;
  int starts = 5;
  bool json = false;
};

// Medians of the rounds, in microseconds.
struct Rounds {
  std::vector<double> large_in_process;
  std::vector<double> large_served;
  std::vector<double> tiny_in_process;
  std::vector<double> tiny_served;
  std::vector<double> tiny_echoed;
};

// A server process, and how long it took to say SERVING.
struct Started {
  std::string address;
  std::unique_ptr<ChildProcess> process;
  double milliseconds = 0;
};

Started StartServing(std::vector<std::string> command, size_t address_at) {
  Started started;
  started.address = FreeLoopbackAddress();
  command[address_at] += started.address;
  const auto start = std::chrono::steady_clock::now();
  started.process = std::make_unique<ChildProcess>(command);
  while (!IsServing(ChannelTo(started.address))) {
    const auto waited = std::chrono::steady_clock::now() - start;
    if (!started.process->Running() || waited > kLongestStart) {
      throw std::runtime_error(command[0] + " does not serve");
    }
    std::this_thread::sleep_for(kPollEvery);
  }
  started.milliseconds = std::chrono::duration<double, std::milli>(
                             std::chrono::steady_clock::now() - start)
                             .count();
  return started;
}

Started StartAttn(const BenchFlags& flags) {
  return StartServing({flags.bin + "/attn-server", "--grpc_address=",
                       "--metrics_address=", "--drain_delay=0s"},
                      1);
}

Started StartEcho(const BenchFlags& flags, size_t response_bytes) {
  return StartServing(
      {flags.bin + "/attn-echo-server", "", std::to_string(response_bytes)}, 1);
}

std::unique_ptr<InProcessCall> MakeCall(Engine& engine, const char* shape) {
  CallProfile profile;
  profile.shape = ParseCallShape(shape).value();
  return InProcessCall::Create(engine, profile).value();
}

size_t ResponseBytes(const RawChannel& channel,
                     const grpc::ByteBuffer& request) {
  return channel.Call(kAttendMethod, request, {}).value().Length();
}

Rounds RunRounds(const BenchFlags& flags) {
  Engine engine;
  const auto large = MakeCall(engine, kLargeShape);
  const auto tiny = MakeCall(engine, kTinyShape);
  const Started attn = StartAttn(flags);
  const RawChannel attn_channel = ChannelTo(attn.address);
  const grpc::ByteBuffer& tiny_request = tiny->payload().request;
  const Started echo =
      StartEcho(flags, ResponseBytes(attn_channel, tiny_request));
  const auto large_served =
      RemoteCall(attn_channel, kAttendMethod, large->payload().request);
  const auto tiny_served =
      RemoteCall(attn_channel, kAttendMethod, tiny_request);
  const auto tiny_echoed =
      RemoteCall(ChannelTo(echo.address), kEchoMethod, tiny_request);
  Rounds rounds;
  for (int round = 0; round < flags.rounds; ++round) {
    rounds.large_in_process.push_back(
        MedianMicros(flags.large_calls, [&large] { large->Run(); }));
    rounds.large_served.push_back(
        MedianMicros(flags.large_calls, large_served));
    rounds.tiny_in_process.push_back(
        MedianMicros(flags.tiny_calls, [&tiny] { tiny->Run(); }));
    rounds.tiny_served.push_back(MedianMicros(flags.tiny_calls, tiny_served));
    rounds.tiny_echoed.push_back(MedianMicros(flags.tiny_calls, tiny_echoed));
  }
  return rounds;
}

double StartMilliseconds(const BenchFlags& flags) {
  std::vector<double> times;
  times.reserve(static_cast<size_t>(flags.starts));
  for (int start = 0; start < flags.starts; ++start) {
    times.push_back(StartAttn(flags).milliseconds);
  }
  return Median(std::move(times));
}

nlohmann::ordered_json Summarize(const Rounds& rounds, double start_ms) {
  nlohmann::ordered_json json;
  json["servers"] = "own processes, TCP on the loopback, one caller";
  json["rounds"] = rounds.large_served.size();
  json["large"] = {{"shape", kLargeShape},
                   {"in_process_us", Median(rounds.large_in_process)},
                   {"served_us", Median(rounds.large_served)},
                   {"served_to_in_process",
                    MedianRatio(rounds.large_served, rounds.large_in_process)}};
  json["tiny"] = {
      {"shape", kTinyShape},
      {"in_process_us", Median(rounds.tiny_in_process)},
      {"served_us", Median(rounds.tiny_served)},
      {"echo_us", Median(rounds.tiny_echoed)},
      {"served_to_echo", MedianRatio(rounds.tiny_served, rounds.tiny_echoed)}};
  json["start_to_serving_ms"] = start_ms;
  // So that every figure above can be worked out again.
  json["round_medians_us"] = {{"large_in_process", rounds.large_in_process},
                              {"large_served", rounds.large_served},
                              {"tiny_in_process", rounds.tiny_in_process},
                              {"tiny_served", rounds.tiny_served},
                              {"tiny_echoed", rounds.tiny_echoed}};
  return json;
}

void PrintTable(const nlohmann::ordered_json& json) {
  const auto line = [](const char* what, double value, const char* unit) {
    std::printf("%-52s %10.2f %s\n", what, value, unit);
  };
  const auto& large = json["large"];
  const auto& tiny = json["tiny"];
  std::printf("servers: %s\n", json["servers"].get<std::string>().c_str());
  std::printf("medians of %d interleaved rounds\n", json["rounds"].get<int>());
  line("(1,8,8,512,512,64) F32 in process, p50", large["in_process_us"], "us");
  line("(1,8,8,512,512,64) F32 through the server, p50", large["served_us"],
       "us");
  line("  ratio", large["served_to_in_process"], "x");
  line("(1,4,4,16,16,32) F32 in process, p50", tiny["in_process_us"], "us");
  line("(1,4,4,16,16,32) F32 through the server, p50", tiny["served_us"], "us");
  line("bare gRPC echo of the same bytes, p50", tiny["echo_us"], "us");
  line("  ratio to the echo", tiny["served_to_echo"], "x");
  line("start to SERVING", json["start_to_serving_ms"], "ms");
}

int Main(int argc, char** argv) {
  CLI::App app("Measures attn-server against the same calls in process");
  BenchFlags flags;
  app.add_option("--bin", flags.bin, "Folder of attn-server")->required();
  app.add_option("--rounds", flags.rounds)->capture_default_str();
  app.add_option("--large-calls", flags.large_calls)->capture_default_str();
  app.add_option("--tiny-calls", flags.tiny_calls)->capture_default_str();
  app.add_option("--starts", flags.starts)->capture_default_str();
  app.add_flag("--json", flags.json, "Print one JSON document");
  CLI11_PARSE(app, argc, argv);
  const Rounds rounds = RunRounds(flags);
  const auto summary = Summarize(rounds, StartMilliseconds(flags));
  if (flags.json) {
    std::printf("%s\n", summary.dump(2).c_str());
  } else {
    PrintTable(summary);
  }
  return 0;
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) {
  try {
    return attn::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attn-serving-bench: %s\n", error.what());
    return 1;
  }
}
