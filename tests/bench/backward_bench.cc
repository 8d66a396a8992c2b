// Gradients in process, with the forward pass that they contain.
//
//   attn-backward-bench [--benchmark_filter=...]
//
// FLOP/s count the five products of a backward pass that keeps the forward
// pass' results, as peers' autograd does, of the scores that are visible.
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/engine.h"

namespace attn {
namespace {

struct Size {
  const char* name;
  int64_t q_heads;
  int64_t kv_heads;
  int64_t length;
  int64_t dim;
  bool causal;
};

constexpr Size kSizes[] = {
    {"p512", 8, 8, 512, 64, false},       {"p512c", 8, 8, 512, 64, true},
    {"p2048", 8, 8, 2048, 64, false},     {"p2048c", 8, 8, 2048, 64, true},
    {"gqa1024c", 32, 8, 1024, 128, true}, {"mqa1024c", 8, 1, 1024, 64, true},
};
constexpr int kThreads[] = {1, 2};

// A tensor and its gradient.
struct Numbers {
  explicit Numbers(const Shape& extents) : shape(extents) {
    static std::mt19937 generator(1);
    std::normal_distribution<float> draw;
    for (int64_t i = 0; i < shape.element_count(); ++i) {
      values.push_back(draw(generator));
    }
    gradient.resize(values.size());
  }
  TensorView view() const {
    return TensorView::Dense(values.data(), DType::kF32, shape);
  }
  MutableTensorView room() {
    return MutableTensorView::Dense(gradient.data(), DType::kF32, shape);
  }

  Shape shape;
  std::vector<float> values;
  std::vector<float> gradient;
};

void Backward(benchmark::State& state, const Size& size, int workers) {
  Numbers q({1, size.q_heads, size.length, size.dim});
  Numbers k({1, size.kv_heads, size.length, size.dim});
  Numbers v(k.shape);
  const Numbers d_output(q.shape);
  AttentionSpec spec;
  if (size.causal) spec.masks = {CausalMask{}};
  AttentionArgs args;
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  GradientSelection wanted;
  wanted.from_output = wanted.q = wanted.k = wanted.v = true;
  const OutputGradients cotangents{d_output.view(), {}};
  const InputGradients gradients{q.room(), k.room(), v.room(), {}};
  Engine engine({.workers = workers});
  const auto plan = engine.PlanBackward(spec, args, cotangents, wanted);
  if (!plan.ok()) {
    state.SkipWithError(plan.status().ToString().c_str());
    return;
  }
  for (auto _ : state) {
    const CallReport report =
        engine.RunBackward(*plan, args, cotangents, gradients);
    if (!report.status.ok()) std::abort();
  }
  const auto length = static_cast<double>(size.length);
  const double scores =
      size.causal ? length * (length + 1) / 2 : length * length;
  const double flops =
      10.0 * static_cast<double>(size.q_heads * size.dim) * scores;
  state.counters["FLOP/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel((*plan)->kernel);
}

void RegisterAll() {
  for (const Size& size : kSizes) {
    for (const int threads : kThreads) {
      const std::string name =
          std::string("backward/") + size.name + "/" + std::to_string(threads);
      benchmark::RegisterBenchmark(name.c_str(),
                                   [size, threads](benchmark::State& state) {
                                     Backward(state, size, threads);
                                   })
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  attn::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
