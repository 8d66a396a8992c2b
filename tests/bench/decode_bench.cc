// Few queries against a long cache, beside a plain read of the same bytes.
//
//   attn-decode-bench [--benchmark_filter=...]
//
// decode/SHAPE/TYPE/THREADS is a call of the engine, and its bytes are those of
// K and V; read/MIB reads so much memory in order, on one thread. dot/TYPE and
// add/TYPE are the products that it is made of, on rows in the nearest cache.
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/engine.h"
#include "engine/tile/row_stream.h"
#include "tests/bench/bench_call.h"
#include "tests/bench/machine_limits.h"

namespace attn {
namespace {

struct CacheType {
  const char* name;
  DType dtype;
};

constexpr CacheType kTypes[] = {
    {"f32", DType::kF32}, {"bf16", DType::kBF16}, {"i8", DType::kI8}};
constexpr int kThreads[] = {1, 2};

std::vector<BenchShape> Shapes() {
  return {
      {"dec4k", {1, 32, 8, 1, 4096, 128, 128, 128}, "none", {}},
      {"dec32k", {1, 32, 8, 1, 32768, 128, 128, 128}, "none", {}},
      {"decb16", {16, 32, 8, 1, 2048, 128, 128, 128}, "none", {}},
      {"mha32k", {1, 8, 8, 1, 32768, 128, 128, 128}, "none", {}},
  };
}

int64_t CacheBytes(const AttentionShape& s, DType dtype) {
  return s.batch * s.kv_heads * s.kv_length * (s.k_dim + s.v_dim) *
         static_cast<int64_t>(SizeOf(dtype));
}

void Decode(benchmark::State& state, const BenchShape& shape,
            const CacheType& type, int workers) {
  Engine engine({.workers = workers});
  const auto call = BenchCall::Create(engine, shape, type.name, "");
  if (!call.ok()) {
    state.SkipWithError(call.status().ToString().c_str());
    return;
  }
  for (auto _ : state) (*call)->Run();
  state.SetBytesProcessed(state.iterations() *
                          CacheBytes(shape.shape, type.dtype));
  state.SetLabel((*call)->plan().kernel);
}

void Read(benchmark::State& state, int64_t bytes) {
  HugeBuffer memory(static_cast<size_t>(bytes));
  const auto* floats = reinterpret_cast<const float*>(memory.data());
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        ReadAll(floats, static_cast<size_t>(bytes) / sizeof(float)));
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

// Rows that four few ones are multiplied with.
constexpr int64_t kFew = 4;
constexpr int64_t kRows = 16;
constexpr int64_t kWidth = 128;

void Product(benchmark::State& state, DType dtype, bool dots) {
  const std::vector<std::byte> rows(static_cast<size_t>(kRows * kWidth) *
                                    SizeOf(dtype));
  const RowStream stream{rows.data(), dtype, kWidth, kRows, kWidth};
  std::vector<float> wide(static_cast<size_t>(kFew * kWidth));
  std::vector<float> narrow(static_cast<size_t>(kFew * kRows));
  for (auto _ : state) {
    if (dots) {
      DotStream({wide.data(), kWidth, kFew}, stream, narrow.data(), kRows);
    } else {
      AddStream({narrow.data(), kRows, kFew}, stream, wide.data(), kWidth);
    }
    benchmark::ClobberMemory();
  }
  state.counters["FLOP/s"] =
      benchmark::Counter(static_cast<double>(2 * kFew * kRows * kWidth),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void RegisterCalls() {
  for (const BenchShape& shape : Shapes()) {
    for (const CacheType& type : kTypes) {
      for (const int threads : kThreads) {
        const std::string name = "decode/" + shape.name + "/" + type.name +
                                 "/" + std::to_string(threads);
        benchmark::RegisterBenchmark(
            name.c_str(),
            [shape, type, threads](benchmark::State& state) {
              Decode(state, shape, type, threads);
            })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

void RegisterLimits() {
  for (const int64_t mib : {32, 64, 128, 256}) {
    benchmark::RegisterBenchmark(
        ("read/" + std::to_string(mib)).c_str(),
        [mib](benchmark::State& state) { Read(state, mib << 20); })
        ->Unit(benchmark::kMillisecond);
  }
  for (const CacheType& type : kTypes) {
    for (const bool dots : {true, false}) {
      benchmark::RegisterBenchmark(
          ((dots ? "dot/" : "add/") + std::string(type.name)).c_str(),
          [type, dots](benchmark::State& state) {
            Product(state, type.dtype, dots);
          });
    }
  }
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  attn::RegisterLimits();
  attn::RegisterCalls();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
