// Heads that leave the rest of their work out stop the call that has them.
#include <atomic>
#include <memory>
#include <vector>

#include "engine/core/aligned_buffer.h"
#include "engine/projections/projected_backward.h"
#include "gtest/gtest.h"
#include "tests/engine/projections/projection_call.h"

namespace attn::testing {
namespace {

// One job, which stops.
class StoppingHeads final : public Execution {
 public:
  explicit StoppingHeads(bool& ran) : ran_(ran) {}

  int phase_count() const override { return 1; }
  int64_t job_count(int) const override { return 1; }
  size_t worker_scratch_bytes() const override { return 0; }
  size_t call_scratch_bytes() const override { return 0; }
  void RunJob(const KernelCall& call, int, int64_t, Arena&) const override {
    ran_ = true;
    EXPECT_TRUE(Stops(call));
    EXPECT_TRUE(HasStopped(call));
  }

 private:
  bool& ran_;
};

// Its counters are not those of the call.
TEST(StoppedProjection, AStopOnTheWayForthIsOneOfTheWayBack) {
  ProjectionCall layers(DType::kF64);
  layers.args().q = layers.Store(SomeNumbers({1, 2, 5, 6}, 1));
  layers.args().k = layers.Store(SomeNumbers({1, 2, 7, 6}, 2));
  layers.args().v = layers.Store(SomeNumbers({1, 2, 7, 4}, 3));
  ProjectionSpec& spec = layers.projections();
  spec.q_heads = 2;
  spec.kv_heads = 2;
  spec.output = layers.AddLayer(SomeNumbers({3, 8}, 4), nullptr);
  const Numbers d_output = SomeNumbers({1, 5, 3}, 5);
  OutputGradients cotangents;
  cotangents.output =
      TensorView::Dense(d_output.values.data(), DType::kF64, d_output.shape);
  GradientSelection wanted;
  wanted.from_output = true;
  wanted.inputs = {spec.output->weight};
  Engine engine({.workers = 1});
  const auto plan =
      engine.PlanBackward(layers.spec(), layers.args(), cotangents, wanted);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Problem& problem = (*plan)->problem;
  ASSERT_TRUE(NeedsHeadOutputs(problem));

  bool ran = false;
  bool ran_back = false;
  const auto execution =
      MakeProjectedBackward(problem, std::make_unique<StoppingHeads>(ran),
                            std::make_unique<StoppingHeads>(ran_back));
  Cancellation cancellation(Clock::Monotonic(), absl::InfiniteFuture());
  cancellation.Cancel();
  AlignedBuffer scratch(execution->call_scratch_bytes());
  CallCounters counters;
  std::atomic<bool> stopped{false};
  KernelCall call;
  call.problem = &problem;
  call.args = &layers.args();
  call.scratch = scratch.data();
  call.counters = &counters;
  call.cotangents = cotangents;
  call.gradients.inputs.resize(layers.args().inputs.size());
  call.cancellation = &cancellation;
  call.stopped = &stopped;
  const auto state = execution->Begin(call);
  call.state = state.get();
  Arena arena;
  arena.Reserve(execution->worker_scratch_bytes());
  for (int phase = 0; phase < execution->phase_count() && !ran; ++phase) {
    for (int64_t job = 0; job < execution->job_count(phase); ++job) {
      arena.Reset();
      execution->RunJob(call, phase, job, arena);
    }
  }
  EXPECT_TRUE(ran);
  EXPECT_FALSE(ran_back);
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace attn::testing
