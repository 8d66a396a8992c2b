#include "tests/bench/in_process_call.h"
#include "tests/bench/probe.h"
#include "tests/bench/serving/bench_calls.h"
#include "tests/bench/serving/bench_rows.h"
#include "tests/bench/serving/closed_loop.h"
#include "tests/bench/serving/rounds.h"
#include "tests/bench/statistics.h"

namespace attn {
namespace {

constexpr double kMedian = 50;
constexpr int kConnections = 4;
constexpr double kMostMicrosAboveEcho = 15;
constexpr double kLeastShareOfEcho = 0.9;

enum Series {
  kInProcess,
  kServed,
  kEchoed,
  kServed8,
  kEchoed8,
  kServed32,
  kEchoed32
};

BenchSeries LoneCaller(const char* name, const ServingSetting& setting,
                       const std::string& address,
                       const grpc::ByteBuffer& request) {
  return {name,
          [channel = ChannelTo(address), request, seconds = setting.seconds] {
            return ServedMicros(channel, request, seconds, kMedian);
          }};
}

BenchSeries ManyCallers(const char* name, const ServingSetting& setting,
                        const std::string& address, int callers,
                        const grpc::ByteBuffer& request) {
  const auto loop = std::make_shared<ClosedLoop>(
      address, LoopLoad{.connections = kConnections, .callers = callers},
      request);
  return {name, [loop, seconds = setting.seconds] {
            return loop->Run(seconds).calls_per_second;
          }};
}

void AddRates(const std::vector<BenchSeries>& series, Series served,
              Series echoed, const std::string& load, BenchRow& row) {
  row.Add("Attend, " + load, Median(series[served].values), "calls/s");
  row.Add("echo, " + load, Median(series[echoed].values), "calls/s");
  row.AddAtLeast("  share of the echo's rate, " + load,
                 MedianRatio(series[served].values, series[echoed].values), "",
                 kLeastShareOfEcho);
}

}  // namespace

BenchRow TinyRow(const ServingSetting& whole) {
  ServingSetting setting = whole;
  setting.seconds /= kSlices;
  Engine engine;
  const auto in_process =
      InProcessCall::Create(engine, ProfileOf(kTinyShape)).value();
  const grpc::ByteBuffer& request = in_process->payload().request;
  const ServingProcess attn = StartAttn(setting);
  const ServingProcess echo =
      StartEcho(setting, AnswerBytes(attn.address, request));
  std::vector<BenchSeries> series = {
      {"in_process_us",
       [&] {
         return MedianMicros(setting.seconds / 4,
                             [&in_process] { in_process->Run(); });
       }},
      LoneCaller("served_us", setting, attn.address, request),
      LoneCaller("echoed_us", setting, echo.address, request),
      ManyCallers("served_8_per_s", setting, attn.address, 8, request),
      ManyCallers("echoed_8_per_s", setting, echo.address, 8, request),
      ManyCallers("served_32_per_s", setting, attn.address, 32, request),
      ManyCallers("echoed_32_per_s", setting, echo.address, 32, request)};
  MeasureInRounds(kSlices * setting.rounds, series);
  BenchRow row("tiny",
               "(1,4,4,16,16,32) F32 beside a bare echo of its bytes, "
               "TCP");
  row.Add("in process, p50", Median(series[kInProcess].values), "us");
  row.Add("Attend, one caller, p50", Median(series[kServed].values), "us");
  row.Add("echo, one caller, p50", Median(series[kEchoed].values), "us");
  row.AddAtMost(
      "tiny Attend above the echo, one caller, p50",
      MedianDifference(series[kServed].values, series[kEchoed].values), "us",
      kMostMicrosAboveEcho);
  AddRates(series, kServed8, kEchoed8, "8 callers, 4 connections", row);
  AddRates(series, kServed32, kEchoed32, "32 callers, 4 connections", row);
  row.series = std::move(series);
  return row;
}

}  // namespace attn
