#include "engine/engine.h"

#include <atomic>
#include <utility>

#include "engine/biases/bias.h"
#include "engine/call_group.h"
#include "engine/call_task.h"
#include "engine/core/backward_problem.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/onednn_matmul.h"
#include "engine/masks/mask.h"
#include "engine/normalizers/normalizer.h"
#include "engine/plan/call_values.h"
#include "engine/plan/cpu_class.h"
#include "engine/plan/plan_cache.h"
#include "engine/runtime/cpu_quota.h"
#include "engine/runtime/mutex.h"
#include "engine/runtime/worker_pool.h"
#include "engine/scores/score.h"
#include "engine/sparsifiers/sparsifier.h"
#include "engine/tile/row_math.h"
#include "engine/tile/vector_isa.h"
#include "engine/transforms/transform.h"

namespace attn {
namespace {

// Waits for the report that `submit` promises to the callback it is given.
template <typename Submit>
CallReport WaitFor(const Submit& submit) {
  Mutex mutex;
  CondVar finished;
  bool done = false;
  CallReport result;
  submit([&](CallReport report) {
    const MutexLock lock(mutex);
    result = std::move(report);
    done = true;
    finished.NotifyOne();
  });
  const MutexLock lock(mutex);
  while (!done) finished.Wait(mutex);
  return result;
}

template <typename Entry>
StageInfo DescribeTable(const char* stage, absl::Span<const Entry> table) {
  StageInfo info{stage, {}};
  for (const Entry& entry : table) {
    info.members.push_back({entry.name, entry.summary});
  }
  return info;
}

}  // namespace

class Engine::Impl {
 public:
  explicit Impl(const EngineOptions& options)
      : clock(options.clock != nullptr ? *options.clock : Clock::Monotonic()),
        plans(options.plan_cache_capacity),
        pool(MakeWorkerPool(
            options.workers > 0 ? options.workers : ReadCpuQuota().threads,
            clock, options.worker_niceness)) {}

  const Clock& clock;
  // Nanoseconds that callers' threads spent in calls.
  std::atomic<int64_t> busy_here{0};
  PlanCache plans;
  std::unique_ptr<WorkerPool> pool;
};

Engine::Engine(const EngineOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}

Engine::~Engine() = default;

absl::StatusOr<std::shared_ptr<const attn::Plan>> Engine::Plan(
    const AttentionSpec& spec, const AttentionArgs& args,
    const OutputSelection& outputs, DType output_dtype,
    absl::string_view kernel) {
  const absl::StatusOr<Problem> problem =
      MakeProblem(spec, args, outputs, output_dtype, kernel);
  if (!problem.ok()) return problem.status();
  return impl_->plans.Get(*problem);
}

absl::Status Engine::CheckValues(const attn::Plan& plan,
                                 const AttentionArgs& args) {
  return CheckCallValues(plan.problem, args);
}

void Engine::Submit(std::shared_ptr<const attn::Plan> plan,
                    const AttentionArgs& args, const AttentionOutputs& outputs,
                    const Cancellation& cancellation,
                    std::function<void(CallReport)> done) {
  auto task = std::make_unique<CallTask>(std::move(plan), args, cancellation,
                                         impl_->clock);
  task->set_outputs(outputs);
  task->set_done(std::move(done));
  impl_->pool->Submit(std::move(task));
}

bool Engine::IsSmall(const attn::Plan& plan) { return IsSmallCall(plan); }

void Engine::RunHere(ForwardCall call) {
  CallTask task(std::move(call), impl_->clock);
  const absl::Time start = impl_->clock.Now();
  RunOnThisThread(task);
  impl_->busy_here.fetch_add(
      absl::ToInt64Nanoseconds(impl_->clock.Now() - start),
      std::memory_order_relaxed);
}

void Engine::SubmitTogether(std::vector<ForwardCall> calls) {
  std::vector<std::unique_ptr<CallTask>> together;
  for (ForwardCall& call : calls) {
    const bool is_short = IsShortCall(*call.plan);
    auto task = std::make_unique<CallTask>(std::move(call), impl_->clock);
    if (is_short) {
      together.push_back(std::move(task));
    } else {
      impl_->pool->Submit(std::move(task));
    }
  }
  if (together.empty()) return;
  impl_->pool->Submit(
      std::make_unique<CallGroup>(std::move(together), impl_->clock));
}

CallReport Engine::Run(std::shared_ptr<const attn::Plan> plan,
                       const AttentionArgs& args,
                       const AttentionOutputs& outputs) {
  const Cancellation never(impl_->clock, absl::InfiniteFuture());
  if (IsSmall(*plan)) {
    CallReport result;
    RunHere(
        {.plan = std::move(plan),
         .args = &args,
         .outputs = &outputs,
         .cancellation = &never,
         .done = [&result](CallReport report) { result = std::move(report); }});
    return result;
  }
  return WaitFor([&](std::function<void(CallReport)> done) {
    Submit(std::move(plan), args, outputs, never, std::move(done));
  });
}

absl::StatusOr<std::shared_ptr<const attn::Plan>> Engine::PlanBackward(
    const AttentionSpec& spec, const AttentionArgs& args,
    const OutputGradients& cotangents, const GradientSelection& wanted) {
  const absl::StatusOr<Problem> problem =
      MakeBackwardProblem(spec, args, cotangents, wanted);
  if (!problem.ok()) return problem.status();
  return impl_->plans.Get(*problem);
}

void Engine::SubmitBackward(std::shared_ptr<const attn::Plan> plan,
                            const AttentionArgs& args,
                            const OutputGradients& cotangents,
                            const InputGradients& gradients,
                            const Cancellation& cancellation,
                            std::function<void(CallReport)> done) {
  auto task = std::make_unique<CallTask>(std::move(plan), args, cancellation,
                                         impl_->clock);
  task->set_gradients(cotangents, gradients);
  task->set_done(std::move(done));
  impl_->pool->Submit(std::move(task));
}

CallReport Engine::RunBackward(std::shared_ptr<const attn::Plan> plan,
                               const AttentionArgs& args,
                               const OutputGradients& cotangents,
                               const InputGradients& gradients) {
  const Cancellation never(impl_->clock, absl::InfiniteFuture());
  return WaitFor([&](std::function<void(CallReport)> done) {
    SubmitBackward(std::move(plan), args, cotangents, gradients, never,
                   std::move(done));
  });
}

int Engine::workers() const { return impl_->pool->worker_count(); }

absl::Duration Engine::busy_time() const {
  return impl_->pool->busy_time() +
         absl::Nanoseconds(impl_->busy_here.load(std::memory_order_relaxed));
}

std::vector<StageInfo> ListStages() {
  return {DescribeTable("transform", TransformTable()),
          DescribeTable("score", ScoreTable()),
          DescribeTable("bias", BiasTable()),
          DescribeTable("mask", MaskTable()),
          DescribeTable("sparsifier", SparsifierTable()),
          DescribeTable("normalizer", NormalizerTable())};
}

std::vector<std::string> ListKernels() {
  std::vector<std::string> names;
  for (const Kernel* kernel : KernelTable()) names.emplace_back(kernel->name());
  return names;
}

absl::Status LimitIsa(IsaCap cap) {
  if (!CapOneDnn(cap)) {
    return absl::FailedPreconditionError(
        "the instruction set is limited before anything is computed");
  }
  CapVectors(cap);
  return absl::OkStatus();
}

std::string CpuClassName() { return Name(DetectCpuClass()); }

std::string IsaName() { return RowMathIsa(); }

std::string OneDnnVersion() { return OneDnnLibraryVersion(); }

}  // namespace attn
