#include "engine/engine.h"

#include <utility>

#include "engine/biases/bias.h"
#include "engine/core/aligned_buffer.h"
#include "engine/core/call_view.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/onednn_matmul.h"
#include "engine/masks/mask.h"
#include "engine/normalizers/normalizer.h"
#include "engine/plan/plan_cache.h"
#include "engine/runtime/cpu_quota.h"
#include "engine/runtime/mutex.h"
#include "engine/runtime/worker_pool.h"
#include "engine/scores/score.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

int64_t CountEmptyRows(const CallView& call,
                       const std::vector<RowStatistics>& rows) {
  const AttentionShape& shape = call.shape;
  int64_t empty = 0;
  const RowStatistics* head_rows = rows.data();
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t h = 0; h < shape.q_heads; ++h) {
      for (int64_t i = 0; i < call.q_length(b); ++i) {
        empty += head_rows[i].visible_keys == 0 ? 1 : 0;
      }
      head_rows += shape.q_length;
    }
  }
  return empty;
}

// One call on its way through the pool.
class CallTask final : public TileTask {
 public:
  using Callback = std::function<void(CallReport)>;

  CallTask(std::shared_ptr<const attn::Plan> plan, const AttentionArgs& args,
           const AttentionOutputs& outputs, const Cancellation& cancellation,
           const Clock& clock)
      : plan_(std::move(plan)),
        args_(args),
        cancellation_(cancellation),
        clock_(clock),
        submitted_(clock.Now()) {
    call_.outputs = outputs;
  }
  void set_done(Callback done) { done_ = std::move(done); }

  int phase_count() const override { return plan_->execution->phase_count(); }
  int64_t job_count(int phase) const override {
    return plan_->execution->job_count(phase);
  }
  size_t scratch_bytes() const override {
    return plan_->execution->worker_scratch_bytes();
  }
  const Cancellation& cancellation() const override { return cancellation_; }

  // The call's memory is taken here and not by Submit(), which must not keep a
  // server's thread.
  void Begin() override {
    begun_ = clock_.Now();
    const AttentionShape& shape = plan_->problem.shape;
    report_.row_statistics.resize(
        static_cast<size_t>(shape.batch * shape.q_heads * shape.q_length));
    scratch_ = AlignedBuffer(plan_->execution->call_scratch_bytes());
    call_.args = &args_;
    call_.row_statistics = report_.row_statistics.data();
    call_.scratch = scratch_.data();
    call_.counters = &counters_;
  }

  void RunJob(int phase, int64_t job, Arena& arena) override {
    plan_->execution->RunJob(call_, phase, job, arena);
  }

  void Done(absl::Status status) override {
    const absl::Time now = clock_.Now();
    const bool begun = begun_ != absl::InfinitePast();
    report_.queued = (begun ? begun_ : now) - submitted_;
    report_.computed = begun ? now - begun_ : absl::ZeroDuration();
    report_.status = std::move(status);
    if (report_.status.ok()) {
      FillCounts();
    } else {
      report_.row_statistics.clear();
    }
    done_(std::move(report_));
  }

 private:
  void FillCounts() {
    report_.nonfinite_q = counters_.nonfinite_q.load();
    report_.nonfinite_k = counters_.nonfinite_k.load();
    report_.nonfinite_v = counters_.nonfinite_v.load();
    report_.nonfinite_outputs = counters_.nonfinite_outputs.load();
    report_.fully_masked_rows =
        CountEmptyRows({plan_->problem.shape, args_}, report_.row_statistics);
  }

  const std::shared_ptr<const attn::Plan> plan_;
  const AttentionArgs& args_;
  const Cancellation& cancellation_;
  const Clock& clock_;
  const absl::Time submitted_;
  absl::Time begun_ = absl::InfinitePast();
  Callback done_;
  AlignedBuffer scratch_;
  CallCounters counters_;
  KernelCall call_;
  CallReport report_;
};

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
            clock)) {}

  const Clock& clock;
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

void Engine::Submit(std::shared_ptr<const attn::Plan> plan,
                    const AttentionArgs& args, const AttentionOutputs& outputs,
                    const Cancellation& cancellation,
                    std::function<void(CallReport)> done) {
  auto task = std::make_unique<CallTask>(std::move(plan), args, outputs,
                                         cancellation, impl_->clock);
  task->set_done(std::move(done));
  impl_->pool->Submit(std::move(task));
}

CallReport Engine::Run(std::shared_ptr<const attn::Plan> plan,
                       const AttentionArgs& args,
                       const AttentionOutputs& outputs) {
  const Cancellation never(impl_->clock, absl::InfiniteFuture());
  Mutex mutex;
  CondVar finished;
  bool done = false;
  CallReport result;
  Submit(std::move(plan), args, outputs, never, [&](CallReport report) {
    const MutexLock lock(mutex);
    result = std::move(report);
    done = true;
    finished.NotifyOne();
  });
  const MutexLock lock(mutex);
  while (!done) finished.Wait(mutex);
  return result;
}

int Engine::workers() const { return impl_->pool->worker_count(); }

absl::Duration Engine::busy_time() const { return impl_->pool->busy_time(); }

std::vector<StageInfo> ListStages() {
  return {DescribeTable("score", ScoreTable()),
          DescribeTable("bias", BiasTable()),
          DescribeTable("mask", MaskTable()),
          DescribeTable("normalizer", NormalizerTable())};
}

std::vector<std::string> ListKernels() {
  std::vector<std::string> names;
  for (const Kernel* kernel : KernelTable()) names.emplace_back(kernel->name());
  return names;
}

std::string IsaName() { return RowMathIsa(); }

std::string OneDnnVersion() { return OneDnnLibraryVersion(); }

}  // namespace attn
