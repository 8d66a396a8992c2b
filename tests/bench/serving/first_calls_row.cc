#include <chrono>

#include "absl/strings/str_cat.h"
#include "tests/bench/probe.h"
#include "tests/bench/serving/bench_calls.h"
#include "tests/bench/serving/bench_rows.h"
#include "tests/bench/serving/rounds.h"
#include "tests/bench/statistics.h"

namespace attn {
namespace {

constexpr int kShapes = 1000;
constexpr int kQueryLengths = 25;
constexpr int kShortest = 8;
constexpr int kLaterPasses = 4;
constexpr double kMedian = 50;
constexpr double kTail = 99;
constexpr double kSlowest = 99.9;
constexpr double kMostOfLater = 5;

// 1000 different shapes of nearly the same cost.
std::vector<grpc::ByteBuffer> Requests() {
  std::vector<grpc::ByteBuffer> requests;
  for (int i = 0; i < kShapes; ++i) {
    requests.push_back(RequestOf(
        ProfileOf(absl::StrCat("1,4,4,", kShortest + i % kQueryLengths, ",",
                               kShortest + i / kQueryLengths, ",32"))));
  }
  return requests;
}

void CallEach(const RawChannel& channel,
              const std::vector<grpc::ByteBuffer>& requests,
              HdrHistogram& times) {
  for (const grpc::ByteBuffer& request : requests) {
    const auto call = RemoteCall(channel, kAttendMethod, request);
    const auto start = std::chrono::steady_clock::now();
    call();
    times.Record(
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - start)
            .count());
  }
}

}  // namespace

BenchRow FirstCallsRow(const ServingSetting& setting) {
  const std::vector<grpc::ByteBuffer> requests = Requests();
  enum { kFirstMedian, kFirstTail, kLaterMedian, kLaterTail };
  std::vector<BenchSeries> series = {
      BenchSeries("first_p50_us"), BenchSeries("first_p99.9_us"),
      BenchSeries("later_p50_us"), BenchSeries("later_p99_us")};
  for (int round = 0; round < setting.rounds; ++round) {
    // A server that is new to all of them; without metrics it stops sooner.
    const ServingProcess attn = StartAttn(setting, {"--metrics_address="});
    const RawChannel channel = ChannelTo(attn.address);
    // Connects, so that the first call need not.
    if (!IsServing(channel)) continue;
    HdrHistogram first;
    HdrHistogram later;
    CallEach(channel, requests, first);
    for (int pass = 0; pass < kLaterPasses; ++pass) {
      CallEach(channel, requests, later);
    }
    series[kFirstMedian].values.push_back(MicrosAt(first, kMedian));
    series[kFirstTail].values.push_back(MicrosAt(first, kSlowest));
    series[kLaterMedian].values.push_back(MicrosAt(later, kMedian));
    series[kLaterTail].values.push_back(MicrosAt(later, kTail));
  }
  BenchRow row("first",
               "the first 1000 calls of a new server, of 1000 shapes, "
               "and 4000 after them");
  const auto median = [&series](size_t which) {
    return Median(series[which].values);
  };
  row.Add("first calls, p50", median(kFirstMedian), "us");
  row.Add("first calls, p99.9", median(kFirstTail), "us");
  row.Add("after them, p50", median(kLaterMedian), "us");
  row.Add("after them, p99", median(kLaterTail), "us");
  row.AddAtMost(
      "p99.9 of 1000 first calls, to p99 after them",
      MedianRatio(series[kFirstTail].values, series[kLaterTail].values), "x",
      kMostOfLater);
  row.series = std::move(series);
  return row;
}

}  // namespace attn
