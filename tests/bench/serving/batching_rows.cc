#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/bench/probe.h"
#include "tests/bench/serving/bench_calls.h"
#include "tests/bench/serving/bench_rows.h"
#include "tests/bench/serving/closed_loop.h"
#include "tests/bench/serving/rounds.h"
#include "tests/bench/statistics.h"
#include "tests/server/metrics/scrape.h"

namespace attn {
namespace {

constexpr double kMedian = 50;
constexpr double kMostOfUnbatched = 1.05;
constexpr double kLeastFill = 0.8;
// In flight: so many budgets.
constexpr int64_t kOverload = 4;
constexpr int kConnections = 4;

// One token a batch: every call is alone in its own.
constexpr char kNoBatches[] = "--max_batch_tokens=1";

// Calls that compute longer than they travel, so that the engine and not the
// network is what they wait for: eight heads read one head of keys.
struct FillLoad {
  const char* shape;
  int64_t tokens;
  int64_t budget;
};

constexpr FillLoad kFillLoads[] = {
    {"1,8,1,128,128,64", 128, 2048},
    {"1,8,1,512,512,64", 512, 16384},
};

struct BatchCounts {
  double batches = 0;
  double tokens = 0;
  double calls = 0;
};

void Sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

BatchCounts CountsOf(const ServingProcess& server) {
  const size_t colon = server.metrics_address.rfind(':');
  const std::string page =
      Scrape(std::atoi(server.metrics_address.c_str() + colon + 1));
  return {.batches = ValueOf(page, "attn_batch_tokens_count"),
          .tokens = ValueOf(page, "attn_batch_tokens_sum"),
          .calls = ValueOf(page, "attn_batch_requests_sum")};
}

void Fill(const ServingSetting& setting, const FillLoad& load, BenchRow& row) {
  const ServingProcess attn =
      StartAttn(setting, {absl::StrCat("--max_batch_tokens=", load.budget)});
  const int callers = static_cast<int>(kOverload * load.budget / load.tokens);
  ClosedLoop loop(attn.address,
                  {.connections = kConnections, .callers = callers},
                  RequestOf(ProfileOf(load.shape)));
  std::vector<double> calls_a_batch;
  std::vector<BenchSeries> series = {
      {absl::StrCat(load.shape, " mean_batch_tokens"), [&] {
         // Without the first and the last batches, which are never full.
         loop.Start();
         Sleep(setting.seconds);
         const BatchCounts before = CountsOf(attn);
         Sleep(4 * setting.seconds);
         const BatchCounts after = CountsOf(attn);
         loop.Stop();
         const double batches = after.batches - before.batches;
         calls_a_batch.push_back((after.calls - before.calls) / batches);
         return (after.tokens - before.tokens) / batches;
       }}};
  // Each is a mean of many batches.
  MeasureInRounds((setting.rounds + 2) / 3, series);
  const double tokens = Median(series[0].values);
  const std::string label =
      absl::StrCat("(", load.shape, "), ", callers, " in flight");
  row.Add(absl::StrCat("mean batch, ", label), tokens, "tokens");
  row.Add("  calls in it", Median(calls_a_batch), "");
  row.AddAtLeast(absl::StrCat("  share of --max-batch-tokens=", load.budget),
                 tokens / static_cast<double>(load.budget), "", kLeastFill);
  row.series.push_back(std::move(series[0]));
}

}  // namespace

BenchRow LoneCallerRow(const ServingSetting& setting) {
  const grpc::ByteBuffer request = RequestOf(ProfileOf(kTinyShape));
  const ServingProcess batched = StartAttn(setting);
  const ServingProcess unbatched = StartAttn(setting, {kNoBatches});
  const auto lone = [&](const ServingProcess& server) {
    return [&request, channel = ChannelTo(server.address),
            seconds = setting.seconds / kSlices] {
      return ServedMicros(channel, request, seconds, kMedian);
    };
  };
  std::vector<BenchSeries> series = {{"batched_us", lone(batched)},
                                     {"unbatched_us", lone(unbatched)}};
  MeasureInRounds(kSlices * setting.rounds, series);
  BenchRow row("lone",
               "one caller of (1,4,4,16,16,32), with batches and with "
               "--max-batch-tokens=1");
  row.Add("with batches, p50", Median(series[0].values), "us");
  row.Add("without, p50", Median(series[1].values), "us");
  row.AddAtMost("one caller with batches, to without",
                MedianRatio(series[0].values, series[1].values), "x",
                kMostOfUnbatched);
  row.series = std::move(series);
  return row;
}

BenchRow BatchFillRow(const ServingSetting& setting) {
  BenchRow row("fill", "mean batch of a server that has 4 budgets waiting");
  for (const FillLoad& load : kFillLoads) Fill(setting, load, row);
  return row;
}

}  // namespace attn
