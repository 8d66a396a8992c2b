#include <chrono>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/examples/storyteller/model.h"
#include "client/examples/storyteller/sampler.h"
#include "client/examples/storyteller/session_attention.h"
#include "client/library/remote_session.h"
#include "tests/bench/serving/bench_rows.h"
#include "tests/bench/serving/in_process_steps.h"
#include "tests/bench/serving/rounds.h"
#include "tests/bench/statistics.h"

namespace attn {
namespace {

// Where the shipped model says that a text begins.
constexpr int32_t kBeginOfText = 1;

LlamaModel ShippedModel() {
  std::ifstream file(ATTN_SOURCE_DIR "/server/story/model/tiny.bin",
                     std::ios::binary);
  return LlamaModel::Parse(
             std::string{std::istreambuf_iterator<char>(file), {}})
      .value();
}

// Tokens a second of the likeliest text, as long as the model's texts may be.
double TokensPerSecond(const LlamaModel& model, const LlamaAttention& attend) {
  TokenSampler sampler(0, 1);
  const int64_t length = model.sizes().longest_text;
  int32_t token = kBeginOfText;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < length; ++i) {
    token = sampler.Next(model.Read({token}, attend).value());
  }
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  return static_cast<double>(length) / taken.count();
}

double RemoteTokensPerSecond(const LlamaModel& model,
                             const std::string& address) {
  RemoteSessionOptions options;
  options.addresses = {address};
  auto session =
      RemoteSession::Open(SessionFor(model.sizes()), options).value();
  const double rate = TokensPerSecond(model, [&](const LlamaRows& rows) {
    return AttendRemotely(model.sizes(), rows, session);
  });
  session.Close().IgnoreError();
  return rate;
}

}  // namespace

BenchRow StoryRow(const ServingSetting& setting) {
  const LlamaModel model = ShippedModel();
  Engine engine;
  const ServingProcess attn = StartAttn(setting);
  std::vector<BenchSeries> series = {
      {"in process",
       [&] {
         InProcessSteps steps(engine, model.sizes());
         return TokensPerSecond(
             model, [&](const LlamaRows& rows) { return steps.Attend(rows); });
       }},
      {"over unix",
       [&] { return RemoteTokensPerSecond(model, attn.unix_address); }},
      {"over tcp", [&] { return RemoteTokensPerSecond(model, attn.address); }}};
  MeasureInRounds(setting.rounds, series);
  BenchRow row("story", "the shipped story model, each attention a step");
  for (const BenchSeries& one : series) {
    row.Add(one.name, Median(one.values), "tokens/s");
  }
  row.Add("over unix to in process",
          MedianRatio(series[1].values, series[0].values), "x");
  row.series = std::move(series);
  return row;
}

}  // namespace attn
