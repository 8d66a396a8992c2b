// Long jobs look for themselves whether their call is of any use.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/aligned_buffer.h"
#include "engine/kernels/kernel.h"
#include "engine/plan/cost.h"
#include "engine/plan/plan.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr float kUntouched = -7;

// One head of width 1.
struct OneHeadCall {
  OneHeadCall(const std::string& kernel, int64_t q_length, int64_t kv_length)
      : q(static_cast<size_t>(q_length), 1),
        kv(static_cast<size_t>(kv_length), 1),
        output(q.size(), kUntouched) {
    problem.kernel = kernel;
    problem.shape = {.batch = 1,
                     .q_heads = 1,
                     .kv_heads = 1,
                     .q_length = q_length,
                     .kv_length = kv_length,
                     .q_dim = 1,
                     .k_dim = 1,
                     .v_dim = 1};
  }

  // Every job of it; returns whether one of them stopped.
  bool Run(const Cancellation* cancellation) {
    const auto plan = MakePlan(problem);
    EXPECT_TRUE(plan.ok()) << plan.status();
    const Execution& execution = *(*plan)->execution;
    const Shape queries{1, 1, problem.shape.q_length, 1};
    const Shape keys{1, 1, problem.shape.kv_length, 1};
    const auto* kv_bytes = reinterpret_cast<const std::byte*>(kv.data());
    AttentionArgs args;
    args.q = TensorView::Dense(reinterpret_cast<const std::byte*>(q.data()),
                               DType::kF32, queries);
    args.k = args.v = TensorView::Dense(kv_bytes, DType::kF32, keys);
    std::vector<RowStatistics> rows(q.size());
    const AlignedBuffer scratch(execution.call_scratch_bytes());
    CallCounters counters;
    KernelCall call;
    call.problem = &problem;
    call.args = &args;
    call.outputs.output = MutableTensorView::Dense(
        reinterpret_cast<std::byte*>(output.data()), DType::kF32, queries);
    call.row_statistics = rows.data();
    call.scratch = const_cast<std::byte*>(scratch.data());
    call.counters = &counters;
    call.cancellation = cancellation;
    std::atomic<bool> stopped{false};
    call.stopped = &stopped;
    const auto state = execution.Begin(call);
    call.state = state.get();
    Arena arena;
    arena.Reserve(execution.worker_scratch_bytes());
    for (int phase = 0; phase < execution.phase_count(); ++phase) {
      for (int64_t job = 0; job < execution.job_count(phase); ++job) {
        arena.Reset();
        execution.RunJob(call, phase, job, arena);
      }
    }
    return stopped.load();
  }
  bool IsUntouched() const {
    return std::all_of(output.begin(), output.end(),
                       [](float value) { return value == kUntouched; });
  }

  Problem problem;
  std::vector<float> q;
  std::vector<float> kv;
  std::vector<float> output;
};

void ExpectToStop(const std::string& kernel, int64_t q_length,
                  int64_t kv_length) {
  OneHeadCall call(kernel, q_length, kv_length);
  Cancellation cancellation(Clock::Monotonic(), absl::InfiniteFuture());
  cancellation.Cancel();
  EXPECT_TRUE(call.Run(&cancellation)) << kernel;
  EXPECT_TRUE(call.IsUntouched()) << kernel;
  EXPECT_FALSE(call.Run(nullptr)) << kernel;
  for (const float value : call.output) EXPECT_NEAR(value, 1, 1e-4) << kernel;
}

TEST(StoppedCall, ABlockOfTheTiledKernelEndsBetweenTiles) {
  ExpectToStop("flash_simd", 65, 1 << 14);
}

TEST(StoppedCall, ABlockOfLongRowsEndsBetweenItsSteps) {
  ExpectToStop("rowwise", 16, 1 << 18);
}

// Once it was one job for all of them.
TEST(StoppedCall, NoJobHasManyHeadsWithoutWidth) {
  Problem problem;
  problem.kernel = "flash_simd";
  problem.shape = {.batch = 1 << 20,
                   .q_heads = 1,
                   .kv_heads = 1,
                   .q_length = 1,
                   .kv_length = 64,
                   .q_dim = 0,
                   .k_dim = 0,
                   .v_dim = 0};
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(VisiblePairs(problem) / static_cast<double>((*plan)->tile_jobs()),
            0x1p20);
}

TEST(StoppedCall, NoBlockOfMillionsOfKeysHasManyRows) {
  Problem problem;
  problem.kernel = "rowwise";
  problem.shape = {.batch = 1,
                   .q_heads = 1,
                   .kv_heads = 1,
                   .q_length = 64,
                   .kv_length = 1 << 23,
                   .q_dim = 1,
                   .k_dim = 1,
                   .v_dim = 1};
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->execution->job_count(1), 32);
}

}  // namespace
}  // namespace attn
