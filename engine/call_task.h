// One call of the engine as work: its memory, its phases, its report.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "engine/core/aligned_buffer.h"
#include "engine/engine_call.h"
#include "engine/kernels/kernel.h"
#include "engine/runtime/arena.h"
#include "engine/runtime/worker_pool.h"

namespace attn {

// Whether a call takes about as long as to hand it to a worker and to be woken
// by it: some microseconds, or some tens for costly normalizers.
bool IsSmallCall(const Plan& plan);
// Whether one worker computes a call in so short a time, a fraction of a
// millisecond, that others need not help.
bool IsShortCall(const Plan& plan);

// Borrows what a ForwardCall borrows. Thread-safety as of TileTask.
class CallTask final : public TileTask {
 public:
  using Callback = std::function<void(CallReport)>;

  CallTask(std::shared_ptr<const Plan> plan, const AttentionArgs& args,
           const Cancellation& cancellation, const Clock& clock)
      : plan_(std::move(plan)),
        args_(args),
        cancellation_(cancellation),
        clock_(clock),
        submitted_(clock.Now()) {}
  CallTask(ForwardCall call, const Clock& clock);
  void set_outputs(const AttentionOutputs& outputs) { call_.outputs = outputs; }
  void set_gradients(const OutputGradients& cotangents,
                     const InputGradients& gradients) {
    call_.cotangents = cotangents;
    call_.gradients = gradients;
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
  void Begin() override;
  void RunJob(int phase, int64_t job, Arena& arena) override {
    plan_->execution->RunJob(call_, phase, job, arena);
  }
  void Done(absl::Status status) override;

  // The whole call, Done() included, on the calling thread.
  void RunToEnd(Arena& arena);

 private:
  absl::Status RunPhases(Arena& arena);
  void FillCounts();

  const std::shared_ptr<const Plan> plan_;
  const AttentionArgs& args_;
  const Cancellation& cancellation_;
  const Clock& clock_;
  const absl::Time submitted_;
  absl::Time begun_ = absl::InfinitePast();
  Callback done_;
  AlignedBuffer scratch_;
  CallCounters counters_;
  std::atomic<bool> stopped_{false};
  KernelCall call_;
  std::unique_ptr<const CallState> state_;
  CallReport report_;
};

// As RunToEnd(), with scratch of the calling thread's own.
void RunOnThisThread(CallTask& task);

}  // namespace attn
