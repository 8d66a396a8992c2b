// The engine in process on the shapes that peers are measured on, as CSV:
//
//   attn-peers-bench SHAPES.csv [--threads N] [--dtype f32] [--only a,b]
//
//   attn,SHAPE,DTYPE,THREADS,MEDIAN_MS,BEST_MS,RUNS,KERNEL
//   memory,SHAPE,DTYPE,THREADS,MIB     with --memory: what the process held
//                                      beyond the tensors at most
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "tests/bench/bench_call.h"
#include "tests/bench/timed_runs.h"

namespace attn {
namespace {

struct BenchOptions {
  std::string shapes;
  int threads = 1;
  std::string dtype = "f32";
  std::vector<std::string> only;
  std::string kernel;
  double budget = 0.5;
  bool memory = false;
};

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// A value of /proc/self/status in MiB.
double StatusMib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!absl::StartsWith(line, key)) continue;
    double kib = 0;
    const std::string number(
        absl::StripSuffix(line.substr(key.size() + 1), " kB"));
    return absl::SimpleAtod(number, &kib) ? kib / 1024 : 0;
  }
  return 0;
}

void ReportMemory(BenchCall& call, const BenchShape& shape,
                  const BenchOptions& options) {
  // "5" sets the largest amount to the present one.
  std::ofstream("/proc/self/clear_refs") << "5";
  const double before = StatusMib("VmRSS");
  call.Run();
  std::printf("memory,%s,%s,%d,%.1f\n", shape.name.c_str(),
              options.dtype.c_str(), options.threads,
              StatusMib("VmHWM") - before);
}

// Whether the shape could be computed.
bool Measure(Engine& engine, const BenchShape& shape,
             const BenchOptions& options) {
  const auto call =
      BenchCall::Create(engine, shape, options.dtype, options.kernel);
  if (!call.ok()) {
    std::fprintf(stderr, "%s: %s\n", shape.name.c_str(),
                 call.status().ToString().c_str());
    return false;
  }
  if (options.memory) {
    if (shape.mode == "memory") ReportMemory(**call, shape, options);
    return true;
  }
  const TimedRuns times = TimeRuns(options.budget, [&call] { (*call)->Run(); });
  std::printf("attn,%s,%s,%d,%.5f,%.5f,%d,%s\n", shape.name.c_str(),
              options.dtype.c_str(), options.threads, times.median_ms,
              times.best_ms, times.runs, (*call)->plan().kernel.c_str());
  std::fflush(stdout);
  return true;
}

int MeasureAll(const BenchOptions& options) {
  const auto shapes = ReadBenchShapes(options.shapes);
  if (!shapes.ok()) {
    std::fprintf(stderr, "%s\n", shapes.status().ToString().c_str());
    return 2;
  }
  Engine engine({.workers = options.threads});
  int failures = 0;
  for (const BenchShape& shape : *shapes) {
    const bool wanted =
        options.only.empty() || Contains(options.only, shape.name);
    if (!wanted || !Contains(shape.dtypes, options.dtype)) continue;
    failures += Measure(engine, shape, options) ? 0 : 1;
  }
  return failures == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures the engine on the shapes of its peers");
  BenchOptions options;
  app.add_option("shapes", options.shapes, "shapes.csv")->required();
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  app.add_option("--dtype", options.dtype, "f32, f16, bf16 or i8");
  app.add_option("--only", options.only, "Names of shapes")->delimiter(',');
  app.add_option("--kernel", options.kernel, "In place of the plan's choice");
  app.add_option("--budget", options.budget, "Seconds for each shape");
  app.add_flag("--memory", options.memory, "Measure memory in place of time");
  CLI11_PARSE(app, argc, argv);
  return MeasureAll(options);
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) { return attn::Main(argc, argv); }
