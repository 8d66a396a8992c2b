#include "engine/call_task.h"

#include <new>
#include <utility>
#include <vector>

#include "engine/core/call_view.h"
#include "engine/runtime/one_openmp_thread.h"
#include "engine/runtime/out_of_memory.h"

namespace attn {
namespace {

constexpr double kMaxSmallWork = 1 << 20;
constexpr double kMaxShortWork = 1 << 24;
// Numbers in the scores and outputs of a small call.
constexpr int64_t kMaxSmallElements = 1 << 13;
// Heads without rows, of which there may be 2^40, are work too.
constexpr int64_t kMaxSmallJobs = kMaxSmallElements;
constexpr int64_t kMaxShortJobs = 1 << 16;
// Jobs between two looks at the cancellation: a look takes 25 ns.
constexpr int64_t kJobsAtOnce = 64;
// Scratch that a caller's thread keeps for its next small call.
constexpr size_t kMaxKeptScratch = size_t{1} << 20;

int64_t CountEmptyRows(const CallView& call,
                       const std::vector<RowStatistics>& rows) {
  const AttentionShape& shape = call.shape;
  int64_t empty = 0;
  // There may be 2^40 heads then.
  if (rows.empty()) return empty;
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

}  // namespace

bool IsSmallCall(const Plan& plan) {
  const AttentionShape& s = plan.problem.shape;
  const auto rows = static_cast<double>(s.batch * s.q_heads * s.q_length);
  return plan.work <= kMaxSmallWork &&
         rows * static_cast<double>(s.kv_length + s.v_dim) <=
             kMaxSmallElements &&
         plan.tile_jobs() <= kMaxSmallJobs;
}

bool IsShortCall(const Plan& plan) {
  return plan.work <= kMaxShortWork && plan.tile_jobs() <= kMaxShortJobs;
}

CallTask::CallTask(ForwardCall call, const Clock& clock)
    : CallTask(std::move(call.plan), *call.args, *call.cancellation, clock) {
  call_.outputs = *call.outputs;
  done_ = std::move(call.done);
}

void CallTask::Begin() {
  begun_ = clock_.Now();
  const AttentionShape& shape = plan_->problem.shape;
  report_.row_statistics.resize(
      static_cast<size_t>(shape.batch * shape.q_heads * shape.q_length));
  scratch_ = AlignedBuffer(plan_->execution->call_scratch_bytes());
  call_.problem = &plan_->problem;
  call_.args = &args_;
  call_.row_statistics = report_.row_statistics.data();
  call_.scratch = scratch_.data();
  call_.counters = &counters_;
  call_.cancellation = &cancellation_;
  call_.stopped = &stopped_;
  call_.scalar_gradients = &report_.scalar_gradients;
  state_ = plan_->execution->Begin(call_);
  call_.state = state_.get();
}

void CallTask::Done(absl::Status status) {
  const absl::Time now = clock_.Now();
  const bool begun = begun_ != absl::InfinitePast();
  report_.queued = (begun ? begun_ : now) - submitted_;
  report_.computed = begun ? now - begun_ : absl::ZeroDuration();
  // A job that stopped half-way was perhaps the last.
  if (status.ok() && stopped_.load()) status = cancellation_.Check();
  report_.status = std::move(status);
  if (report_.status.ok()) {
    FillCounts();
  } else {
    report_.row_statistics.clear();
    report_.scalar_gradients = {};
  }
  done_(std::move(report_));
}

void CallTask::RunToEnd(Arena& arena) {
  absl::Status status;
  try {
    status = RunPhases(arena);
  } catch (const std::bad_alloc&) {
    status = OutOfMemory();
  }
  Done(std::move(status));
}

absl::Status CallTask::RunPhases(Arena& arena) {
  absl::Status status = cancellation_.Check();
  if (!status.ok()) return status;
  arena.Reserve(scratch_bytes());
  Begin();
  int64_t done = 0;
  for (int phase = 0; phase < phase_count(); ++phase) {
    const int64_t jobs = job_count(phase);
    for (int64_t job = 0; job < jobs; ++job) {
      if (++done % kJobsAtOnce == 0) status = cancellation_.Check();
      if (!status.ok()) return status;
      arena.Reset();
      RunJob(phase, job, arena);
    }
  }
  return status;
}

void CallTask::FillCounts() {
  report_.nonfinite_q = counters_.nonfinite_q.load();
  report_.nonfinite_k = counters_.nonfinite_k.load();
  report_.nonfinite_v = counters_.nonfinite_v.load();
  report_.nonfinite_outputs = counters_.nonfinite_outputs.load();
  report_.f16_overflows = counters_.f16_overflows.load();
  report_.fully_masked_rows =
      CountEmptyRows({plan_->problem.shape, args_}, report_.row_statistics);
}

void RunOnThisThread(CallTask& task) {
  thread_local Arena arena;
  const OneOpenMpThread guard;
  task.RunToEnd(arena);
  arena.Trim(kMaxKeptScratch);
}

}  // namespace attn
