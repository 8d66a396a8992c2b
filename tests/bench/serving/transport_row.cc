#include <iterator>
#include <memory>
#include <utility>

#include "tests/bench/in_process_call.h"
#include "tests/bench/probe.h"
#include "tests/bench/serving/bench_calls.h"
#include "tests/bench/serving/bench_rows.h"
#include "tests/bench/serving/closed_loop.h"
#include "tests/bench/serving/rounds.h"
#include "tests/bench/statistics.h"

namespace attn {
namespace {

constexpr double kLeastShareOfEcho = 0.85;
constexpr double kMiB = 1 << 20;

// 16 MiB of F32 with hardly anything to compute.
struct Direction {
  const char* name;
  const char* shape;
};

constexpr Direction kDirections[] = {
    // One key: the output is its value, once for each query.
    {"both ways", "1,1,1,4096,1,1024"},
    // One query for each head against 8 MiB of keys and as many of values.
    {"up", "1,8,8,1,4096,64"},
    // Queries and keys of one element, one value of 1024.
    {"down", "1,1,1,4096,1,1,1024"},
};

BenchSeries RateOf(std::string name, const ServingSetting& setting,
                   const std::string& address, int callers,
                   const grpc::ByteBuffer& request) {
  const auto loop = std::make_shared<ClosedLoop>(
      address, LoopLoad{.connections = callers, .callers = callers}, request);
  return {std::move(name), [loop, seconds = setting.seconds] {
            return loop->Run(seconds).calls_per_second;
          }};
}

struct Load {
  const char* label;
  bool unix_socket;
  int callers;
};

constexpr Load kLoads[] = {{"TCP, one caller", false, 1},
                           {"TCP, 4 callers", false, 4},
                           {"unix, one caller", true, 1},
                           {"unix, 4 callers", true, 4}};

// In process first, then for each load served and echoed.
std::vector<BenchSeries> MeasureDirection(const ServingSetting& setting,
                                          const ServingProcess& attn,
                                          const ServingProcess& echo,
                                          const std::string& name,
                                          InProcessCall& in_process) {
  std::vector<BenchSeries> series;
  series.emplace_back(name + ", in process, us", [&] {
    return MedianMicros(setting.seconds / 4,
                        [&in_process] { in_process.Run(); });
  });
  const grpc::ByteBuffer& request = in_process.payload().request;
  for (const Load& load : kLoads) {
    const auto address = [&load](const ServingProcess& server) {
      return load.unix_socket ? server.unix_address : server.address;
    };
    const std::string suffix = name + ", " + load.label + ", calls/s";
    series.push_back(RateOf("served " + suffix, setting, address(attn),
                            load.callers, request));
    series.push_back(RateOf("echoed " + suffix, setting, address(echo),
                            load.callers, request));
  }
  MeasureInRounds(setting.rounds, series);
  return series;
}

// The echo's time over what the server adds to the computation.
double ShareWithoutCompute(double served_per_s, double echoed_per_s,
                           double compute_us) {
  constexpr double kMicros = 1e6;
  return (kMicros / echoed_per_s) / (kMicros / served_per_s - compute_us);
}

void MeasureDirection(const ServingSetting& setting, const ServingProcess& attn,
                      const Direction& direction, BenchRow& row) {
  Engine engine;
  const auto in_process =
      InProcessCall::Create(engine, ProfileOf(direction.shape)).value();
  const grpc::ByteBuffer& request = in_process->payload().request;
  const size_t answer_bytes = AnswerBytes(attn.address, request);
  const ServingProcess echo = StartEcho(setting, answer_bytes);
  const std::string name = std::string("16 MiB ") + direction.name;
  std::vector<BenchSeries> series =
      MeasureDirection(setting, attn, echo, name, *in_process);
  const double compute_us = Median(series[0].values);
  row.Add(name + ", in process", compute_us, "us");
  const double mebibytes =
      static_cast<double>(request.Length() + answer_bytes) / kMiB;
  for (size_t i = 0; i < std::size(kLoads); ++i) {
    const std::vector<double>& served = series[2 * i + 1].values;
    const std::vector<double>& echoed = series[2 * i + 2].values;
    const std::string load = name + ", " + kLoads[i].label;
    row.Add(load, Median(served) * mebibytes, "MiB/s");
    row.AddAtLeast("  share of the echo's, " + load,
                   MedianRatio(served, echoed), "", kLeastShareOfEcho);
    if (kLoads[i].callers == 1) {
      row.Add("  the same without the time in process",
              ShareWithoutCompute(Median(served), Median(echoed), compute_us),
              "");
    }
  }
  for (BenchSeries& each : series) row.series.push_back(std::move(each));
}

}  // namespace

BenchRow TransportRow(const ServingSetting& setting) {
  BenchRow row("transport",
               "16 MiB of F32 beside a bare echo of the same bytes");
  const ServingProcess attn = StartAttn(setting);
  for (const Direction& direction : kDirections) {
    MeasureDirection(setting, attn, direction, row);
  }
  return row;
}

}  // namespace attn
