// Calls of the engine in process, by each kernel that computes them, beside the
// machine's multiply-add peak.
//
//   attn-kernels-bench [--benchmark_filter=...]
//
// Rounds are interleaved and medians shown; after them, each call's share of
// the peak of as many threads.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "benchmark/benchmark.h"
#include "engine/engine.h"
#include "tests/bench/bench_call.h"
#include "tests/bench/fma_peak.h"

namespace attn {
namespace {

constexpr char kFlops[] = "FLOP/s";
constexpr int kThreads[] = {1, 2};

// As shapes.csv has them: extents and mode, and the element type.
struct BenchLine {
  AttentionShape shape;
  const char* mode;
  const char* dtype;
};

constexpr AttentionShape Extents(int64_t q_heads, int64_t kv_heads,
                                 int64_t q_length, int64_t kv_length,
                                 int64_t dim) {
  return {1, q_heads, kv_heads, q_length, kv_length, dim, dim, dim};
}

constexpr BenchLine kLines[] = {
    {Extents(8, 8, 512, 512, 64), "none", "f32"},
    {Extents(8, 8, 512, 512, 64), "none", "bf16"},
    {Extents(8, 8, 512, 512, 64), "causal", "f32"},
    {Extents(4, 4, 16, 16, 32), "none", "f32"},
    {Extents(32, 8, 1, 1024, 128), "none", "f32"},
    {Extents(32, 8, 1, 1024, 128), "none", "i8"},
    {Extents(8, 8, 512, 512, 64), "sparsemax", "f32"},
    {Extents(8, 8, 512, 512, 64), "entmax", "f32"},
    {Extents(8, 8, 512, 512, 64), "topk", "f32"},
    {Extents(8, 8, 512, 512, 64), "linear", "f32"},
    {Extents(8, 8, 512, 512, 64), "backward", "f32"},
};

void FmaPeak(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(SpinFma());
  state.counters[kFlops] =
      benchmark::Counter(static_cast<double>(FmaFlops()),
                         benchmark::Counter::kIsIterationInvariantRate);
}

BenchShape ShapeOf(const BenchLine& line) {
  BenchShape shape;
  shape.shape = line.shape;
  shape.mode = line.mode;
  return shape;
}

void Attend(benchmark::State& state, const BenchLine& line,
            const std::string& kernel, int workers) {
  Engine engine({.workers = workers});
  const auto call =
      BenchCall::Create(engine, ShapeOf(line), line.dtype, kernel);
  if (!call.ok()) {
    state.SkipWithError(call.status().ToString().c_str());
    return;
  }
  for (auto _ : state) (*call)->Run();
  state.counters[kFlops] = benchmark::Counter(
      (*call)->plan().flops, benchmark::Counter::kIsIterationInvariantRate);
}

// Those that compute the line, but for the reference; of a backward call the
// one that the plan chooses, which is not asked for by name.
std::vector<std::string> KernelsOf(const BenchLine& line) {
  Engine engine({.workers = 1});
  const auto call = BenchCall::Create(engine, ShapeOf(line), line.dtype, "");
  if (!call.ok()) return {};
  const Plan& plan = (*call)->plan();
  if (ShapeOf(line).mode == "backward") return {plan.kernel};
  std::vector<std::string> kernels;
  for (const KernelVerdict& verdict : plan.verdicts) {
    if (verdict.why_not.empty() && verdict.kernel != "reference") {
      kernels.push_back(verdict.kernel);
    }
  }
  return kernels;
}

// "flash_simd/8,8,512,512,64/causal/f32/1"
std::string NameOf(const BenchLine& line, const std::string& kernel,
                   int threads) {
  const AttentionShape& s = line.shape;
  return absl::StrCat(
      kernel, "/",
      absl::StrJoin({s.q_heads, s.kv_heads, s.q_length, s.kv_length, s.q_dim},
                    ","),
      "/", line.mode, "/", line.dtype, "/", threads);
}

// Prints shares of the peak once all is measured.
class ShareReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      const auto flops = run.counters.find(kFlops);
      const bool aggregate = run.run_type == Run::RT_Aggregate;
      if (flops == run.counters.end() ||
          (aggregate && run.aggregate_name != "median")) {
        continue;
      }
      medians_[run.run_name.function_name] = flops->second.value;
    }
  }

  void Finalize() override {
    ConsoleReporter::Finalize();
    for (const auto& [name, flops] : medians_) {
      const std::string threads = name.substr(name.rfind('/') + 1);
      const auto peak = medians_.find("peak/" + threads);
      if (peak == medians_.end()) continue;
      std::printf("%-40s %8.1f GFLOP/s  %5.1f %% of peak\n", name.c_str(),
                  flops / 1e9, 100 * flops / peak->second);
    }
  }

 private:
  std::map<std::string, double> medians_;
};

void RegisterLine(const BenchLine& line, const std::string& kernel,
                  int threads) {
  const bool is_backward = ShapeOf(line).mode == "backward";
  benchmark::RegisterBenchmark(
      NameOf(line, kernel, threads).c_str(),
      [line, asked = is_backward ? "" : kernel, threads](
          benchmark::State& state) { Attend(state, line, asked, threads); })
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

void RegisterAll() {
  for (const int threads : kThreads) {
    benchmark::RegisterBenchmark(("peak/" + std::to_string(threads)).c_str(),
                                 FmaPeak)
        ->Threads(threads)
        ->UseRealTime();
    for (const BenchLine& line : kLines) {
      for (const std::string& kernel : KernelsOf(line)) {
        RegisterLine(line, kernel, threads);
      }
    }
  }
}

int Main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  // Before what the user gives, who may want it otherwise.
  std::string defaults[] = {"--benchmark_repetitions=7",
                            "--benchmark_enable_random_interleaving=true",
                            "--benchmark_report_aggregates_only=true",
                            "--benchmark_min_time=0.2"};
  for (std::string& flag : defaults) {
    arguments.insert(arguments.begin() + 1, flag.data());
  }
  arguments.push_back(nullptr);
  int count = static_cast<int>(arguments.size()) - 1;
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  RegisterAll();
  ShareReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) { return attn::Main(argc, argv); }
