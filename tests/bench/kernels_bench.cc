// Calls of the engine in process, beside the machine's multiply-add peak.
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

#include "benchmark/benchmark.h"
#include "engine/engine.h"
#include "tests/bench/fma_peak.h"
#include "tests/bench/in_process_call.h"

namespace attn {
namespace {

constexpr char kFlops[] = "FLOP/s";
constexpr int kThreads[] = {1, 2};
constexpr const char* kShapes[] = {"1,8,8,512,512,64", "1,4,4,16,16,32"};

void FmaPeak(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(SpinFma());
  state.counters[kFlops] =
      benchmark::Counter(static_cast<double>(FmaFlops()),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void AttendInProcess(benchmark::State& state, const CallProfile& profile,
                     int workers) {
  Engine engine({.workers = workers});
  const auto call = InProcessCall::Create(engine, profile);
  if (!call.ok()) {
    state.SkipWithError(call.status().ToString().c_str());
    return;
  }
  for (auto _ : state) (*call)->Run();
  state.counters[kFlops] = benchmark::Counter(
      (*call)->plan().flops, benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel((*call)->plan().kernel);
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

void RegisterAll() {
  for (const int threads : kThreads) {
    benchmark::RegisterBenchmark(("peak/" + std::to_string(threads)).c_str(),
                                 FmaPeak)
        ->Threads(threads)
        ->UseRealTime();
    for (const char* shape : kShapes) {
      CallProfile profile;
      profile.shape = ParseCallShape(shape).value();
      benchmark::RegisterBenchmark(
          ("attend/" + std::string(shape) + "/" + std::to_string(threads))
              .c_str(),
          [profile, threads](benchmark::State& state) {
            AttendInProcess(state, profile, threads);
          })
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
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
