#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/library/session_client.h"
#include "tests/bench/in_process_call.h"
#include "tests/bench/probe.h"
#include "tests/bench/serving/bench_calls.h"
#include "tests/bench/serving/bench_rows.h"
#include "tests/bench/serving/rounds.h"
#include "tests/bench/statistics.h"
#include "tests/server/metrics/scrape.h"

namespace attn {
namespace {

constexpr int64_t kQueryHeads = 32;
constexpr int64_t kKvHeads = 8;
constexpr int64_t kDim = 128;
constexpr int64_t kCached = 4096;
constexpr int64_t kChunk = 512;
constexpr double kMostOfKernel = 1.3;
constexpr double kMostOpenClose = 50;
constexpr int kOpened = 2000;

// A session of one layer that holds kCached tokens, and steps of one more.
class DecodedSession {
 public:
  explicit DecodedSession(const std::string& address)
      : client_(SessionClient::Connect({.address = address}).value()) {
    AttentionSpec spec;
    spec.masks.emplace_back(CausalMask{Alignment::kBottomRight});
    NewSession session;
    session.spec = spec;
    session.q_heads = kQueryHeads;
    session.kv_heads = kKvHeads;
    session.q_dim = kDim;
    const auto opened = client_.Open(session).value();
    next_.session_id = opened.session_id();
    next_.epoch = opened.epoch();
    for (int64_t i = 0; i < kCached; i += kChunk) Step(kChunk);
  }

  // The time of a step of one token, from about kCached tokens on.
  double Micros(double seconds) {
    const auto cut =
        client_.Rollback(next_.session_id, next_.epoch, kCached).value();
    next_.epoch = cut.epoch();
    next_.position = kCached;
    return MedianMicros(seconds, [this] { Step(1); });
  }
  // Of the steps so far: what the server says of its kernel.
  double ComputeMicros() const { return Median(computed_); }

 private:
  void Step(int64_t tokens) {
    const auto view = [&](std::vector<float>& data, int64_t heads) {
      data.resize(static_cast<size_t>(heads * tokens * kDim), 0.25F);
      return TensorView::Dense(data.data(), DType::kF32,
                               {1, heads, tokens, kDim});
    };
    next_.layers = {{.layer = 0,
                     .q = view(q_, kQueryHeads),
                     .k = view(k_, kKvHeads),
                     .v = view(v_, kKvHeads)}};
    const auto answer = client_.Step(next_);
    if (!answer.ok()) throw std::runtime_error(answer.status().ToString());
    if (tokens == 1) {
      constexpr double kNanosPerMicro = 1e3;
      const auto& timings = answer->header.report().timings();
      computed_.push_back(static_cast<double>(timings.compute_ns()) /
                          kNanosPerMicro);
    }
    ++next_.step;
    next_.position += tokens;
  }

  SessionClient client_;
  StepMessage next_;
  std::vector<float> q_;
  std::vector<float> k_;
  std::vector<float> v_;
  std::vector<double> computed_;
};

// As steps come: between two of them workers sleep, and others use the caches.
double PausedMicros(double seconds, InProcessCall& kernel) {
  constexpr auto kPause = std::chrono::microseconds(400);
  std::vector<double> micros;
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kPause);
    const auto begin = std::chrono::steady_clock::now();
    kernel.Run();
    micros.push_back(std::chrono::duration<double, std::micro>(
                         std::chrono::steady_clock::now() - begin)
                         .count());
  }
  return Median(micros);
}

// Seconds that the server spent in a method's calls so far.
double SecondsIn(const ServingProcess& server, const std::string& method) {
  const size_t colon = server.metrics_address.rfind(':');
  const std::string page =
      Scrape(std::stoi(server.metrics_address.substr(colon + 1)));
  return ValueOf(page, "attn_request_duration_seconds_sum{method=\"" + method +
                           "\",variant=\"none\"}");
}

}  // namespace

BenchRow SessionRow(const ServingSetting& setting) {
  Engine engine;
  const auto kernel =
      InProcessCall::Create(engine, ProfileOf("1,32,8,1,4096,128")).value();
  const ServingProcess attn = StartAttn(setting);
  DecodedSession over_unix(attn.unix_address);
  DecodedSession over_tcp(attn.address);
  std::vector<BenchSeries> series = {
      {"kernel in process",
       [&] { return MedianMicros(setting.seconds, [&] { kernel->Run(); }); }},
      {"kernel in process, with pauses",
       [&] { return PausedMicros(setting.seconds, *kernel); }},
      {"step over unix", [&] { return over_unix.Micros(setting.seconds); }},
      {"step over tcp", [&] { return over_tcp.Micros(setting.seconds); }}};
  MeasureInRounds(setting.rounds, series);
  BenchRow row("session", "decoding (32 heads, 8 KV heads, 4096 keys, d 128)");
  for (const BenchSeries& one : series) {
    row.Add(one.name + ", p50", Median(one.values), "us");
  }
  row.Add("  of it computed over unix", over_unix.ComputeMicros(), "us");
  row.AddAtMost("step over unix to kernel",
                MedianRatio(series[2].values, series[0].values), "x",
                kMostOfKernel);
  row.Add("step over unix to kernel with pauses",
          MedianRatio(series[2].values, series[1].values), "x");
  row.Add("step over tcp to kernel",
          MedianRatio(series[3].values, series[0].values), "x");
  row.series = std::move(series);
  return row;
}

BenchRow OpenSessionRow(const ServingSetting& setting) {
  const ServingProcess attn = StartAttn(setting);
  const SessionClient client =
      SessionClient::Connect({.address = attn.unix_address}).value();
  NewSession session;
  session.spec.masks.emplace_back(CausalMask{Alignment::kBottomRight});
  session.layers = kQueryHeads;
  session.q_heads = kQueryHeads;
  session.kv_heads = kKvHeads;
  session.q_dim = kDim;
  std::vector<BenchSeries> series = {
      {"open and close", [&] {
         const auto before =
             SecondsIn(attn, "OpenSession") + SecondsIn(attn, "CloseSession");
         for (int i = 0; i < kOpened; ++i) {
           const auto opened = client.Open(session).value();
           client.Close(opened.session_id()).value();
         }
         const auto after =
             SecondsIn(attn, "OpenSession") + SecondsIn(attn, "CloseSession");
         return 1e6 * (after - before) / kOpened;
       }}};
  MeasureInRounds(setting.rounds, series);
  BenchRow row("open", "a session of 32 layers is opened and closed");
  row.AddAtMost("time in the server", Median(series[0].values), "us",
                kMostOpenClose);
  row.series = std::move(series);
  return row;
}

}  // namespace attn
