// Bits depend on nothing but the call: not on the batch it came in, the number
// of workers, or what else runs.
#include <atomic>
#include <set>
#include <thread>

#include "engine/runtime/mutex.h"
#include "tests/engine/kernels/every_kernel.h"
#include "tests/testing/random_case.h"

namespace attn::testing {
namespace {

using oracle::Case;
using oracle::Random;

Case MixedCase(uint64_t seed) {
  Random random(seed);
  Case call = oracle::RandomCase(random);
  RoundTo(DType::kF32, call);
  return call;
}

// What belongs to entry `b` of a batch.
template <typename T>
std::vector<T> Slice(const std::vector<T>& values, int64_t b, int64_t batch) {
  const int64_t size = static_cast<int64_t>(values.size()) / batch;
  return {values.begin() + b * size, values.begin() + (b + 1) * size};
}

// Entry `b` as a call of its own.
Case Alone(const Case& all, int64_t b) {
  Case one = all;
  one.batch = 1;
  one.q = Slice(all.q, b, all.batch);
  one.k = Slice(all.k, b, all.batch);
  one.v = Slice(all.v, b, all.batch);
  one.q_lengths = Slice(all.q_lengths, b, all.batch);
  one.kv_lengths = Slice(all.kv_lengths, b, all.batch);
  return one;
}

class DeterminismTest : public EveryKernel {};

INSTANTIATE_TEST_SUITE_P(Kernels, DeterminismTest, AllKernels(), KernelName);

TEST_P(DeterminismTest, EntryOfABatchHasTheBitsOfACallOfItsOwn) {
  for (uint64_t seed = 200; seed < 210; ++seed) {
    Random random(seed);
    Case call;
    call.batch = 3;
    call.q_heads = 4;
    call.kv_heads = 2;
    call.q_length = 40;
    call.kv_length = 77;
    call.qk_dim = 33;
    call.v_dim = 18;
    FillTensors(random, call);
    RoundTo(DType::kF32, call);
    call.q_lengths = {40, 13, oracle::Below(random, 41)};
    call.kv_lengths = {77, 30, oracle::Below(random, 78)};
    call.bands = {{.left = 50, .right = 0, .bottom_right = true}};
    const Outcome all = Run(call);
    for (int64_t b = 0; b < call.batch; ++b) {
      const Outcome one = Run(Alone(call, b));
      EXPECT_EQ(Slice(all.output, b, 3), one.output);
      EXPECT_EQ(Slice(all.weights, b, 3), one.weights);
      EXPECT_EQ(Slice(all.lse, b, 3), one.lse);
    }
  }
}

TEST_P(DeterminismTest, OrderOfJobsAndNumberOfWorkersDoNotMatter) {
  Engine one({.workers = 1});
  Engine two({.workers = 2});
  for (uint64_t seed = 300; seed < 316; ++seed) {
    const DType dtype = seed % 2 == 0 ? DType::kF32 : DType::kBF16;
    Case call = MixedCase(seed);
    RoundTo(dtype, call);
    const EngineCall engine_call(
        call, Options({.dtype = dtype, .output_dtype = dtype}));
    if (!Supports(engine_call)) continue;
    const Outcome backwards = engine_call.RunBackwards(kernel());
    EXPECT_TRUE(engine_call.Run(one, kernel().name()).SameBits(backwards));
    EXPECT_TRUE(engine_call.Run(two, kernel().name()).SameBits(backwards));
    EXPECT_TRUE(
        engine_call.RunAndWait(two, kernel().name()).SameBits(backwards));
  }
}

// Counts the threads that ask it, as each does that computes. Thread-safe.
class CountingClock final : public Clock {
 public:
  absl::Time Now() const override {
    const MutexLock lock(mutex_);
    threads_.insert(std::this_thread::get_id());
    return Clock::Monotonic().Now();
  }
  std::set<std::thread::id> threads() const {
    const MutexLock lock(mutex_);
    return threads_;
  }

 private:
  mutable Mutex mutex_;
  mutable std::set<std::thread::id> threads_ ATTN_GUARDED_BY(mutex_);
};

TEST_P(DeterminismTest, TheCallerOfASmallCallComputesIt) {
  const CountingClock clock;
  Engine engine({.workers = 1, .clock = &clock});
  Case call;
  call.batch = call.q_heads = call.kv_heads = 1;
  call.q_length = call.kv_length = 9;
  call.qk_dim = call.v_dim = 8;
  Random random(350);
  FillTensors(random, call);
  const EngineCall engine_call(call, Options());
  ASSERT_TRUE(Supports(engine_call));
  engine_call.RunAndWait(engine, kernel().name());
  EXPECT_EQ(clock.threads(), std::set{std::this_thread::get_id()});
  EXPECT_GT(engine.busy_time(), absl::ZeroDuration());
  engine_call.Run(engine, kernel().name());
  EXPECT_EQ(clock.threads().size(), 2U);
}

TEST_P(DeterminismTest, CallsFromManyThreadsHaveTheBitsOfACallAlone) {
  Engine engine({.workers = 2});
  std::vector<EngineCall> calls;
  std::vector<Outcome> alone;
  for (uint64_t seed = 400; seed < 408; ++seed) {
    calls.emplace_back(MixedCase(seed), Options());
    alone.push_back(calls.back().RunBackwards(kernel()));
  }
  std::atomic<int> different{0};
  std::vector<std::thread> callers;
  for (size_t t = 0; t < calls.size(); ++t) {
    callers.emplace_back([&, t] {
      for (size_t i = 0; i < calls.size(); ++i) {
        const size_t index = (t + i) % calls.size();
        const Outcome got = calls[index].Run(engine, kernel().name());
        if (!got.SameBits(alone[index])) ++different;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(different, 0);
}

}  // namespace
}  // namespace attn::testing
