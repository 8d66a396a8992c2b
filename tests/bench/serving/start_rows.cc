#include "tests/bench/in_process_call.h"
#include "tests/bench/probe.h"
#include "tests/bench/serving/bench_calls.h"
#include "tests/bench/serving/bench_rows.h"
#include "tests/bench/serving/rounds.h"
#include "tests/bench/statistics.h"

namespace attn {
namespace {

constexpr double kMedian = 50;
constexpr int kStarts = 5;

}  // namespace

BenchRow LargeRow(const ServingSetting& setting) {
  Engine engine;
  const auto in_process =
      InProcessCall::Create(engine, ProfileOf(kLargeShape)).value();
  const ServingProcess attn = StartAttn(setting);
  const RawChannel channel = ChannelTo(attn.address);
  std::vector<BenchSeries> series = {
      {"in_process_us",
       [&] {
         return MedianMicros(setting.seconds,
                             [&in_process] { in_process->Run(); });
       }},
      {"served_us", [&] {
         return ServedMicros(channel, in_process->payload().request,
                             setting.seconds, kMedian);
       }}};
  MeasureInRounds(setting.rounds, series);
  BenchRow row("large",
               "(1,8,8,512,512,64) F32 in process and served, one "
               "caller");
  row.Add("in process, p50", Median(series[0].values), "us");
  row.Add("Attend, p50", Median(series[1].values), "us");
  row.Add("  to in process", MedianRatio(series[1].values, series[0].values),
          "x");
  row.series = std::move(series);
  return row;
}

BenchRow StartRow(const ServingSetting& setting) {
  std::vector<BenchSeries> series = {
      {"start_ms", [&setting] {
         return StartAttn(setting, {"--metrics_address="}).start_milliseconds;
       }}};
  MeasureInRounds(kStarts, series);
  BenchRow row("start", "from the start of the process");
  row.Add("start to SERVING", Median(series[0].values), "ms");
  row.series = std::move(series);
  return row;
}

}  // namespace attn
