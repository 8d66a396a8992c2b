// A kernel is how a variant is computed.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/attention_args.h"
#include "engine/core/gradients.h"
#include "engine/core/problem.h"
#include "engine/core/row_statistics.h"
#include "engine/runtime/arena.h"
#include "engine/runtime/cancellation.h"

namespace attn {

// Counts that a call's jobs add to; all integers, so that the order of jobs
// cannot change them.
struct CallCounters {
  std::atomic<int64_t> nonfinite_q{0};
  std::atomic<int64_t> nonfinite_k{0};
  std::atomic<int64_t> nonfinite_v{0};
  std::atomic<int64_t> nonfinite_outputs{0};
  // In calls of F16: visible keys whose raw or final logit is beyond F16.
  std::atomic<int64_t> f16_overflows{0};
};

// What an execution keeps of a call while it runs.
class CallState {
 public:
  virtual ~CallState() = default;
};

// One call in flight: what jobs read and write. Jobs write disjoint rows.
struct KernelCall {
  const Problem* problem = nullptr;
  const AttentionArgs* args = nullptr;
  AttentionOutputs outputs;
  // [B, Hq, Sq], always present.
  RowStatistics* row_statistics = nullptr;
  // Execution::call_scratch_bytes() of 64-byte aligned memory.
  std::byte* scratch = nullptr;
  CallCounters* counters = nullptr;
  // Of a backward call.
  OutputGradients cotangents;
  InputGradients gradients;
  ScalarGradients* scalar_gradients = nullptr;
  // What Execution::Begin() gave.
  const CallState* state = nullptr;
  // Null: the call runs to its end.
  const Cancellation* cancellation = nullptr;
  // Beside `cancellation`: whether a job left the rest of its work out, see
  // Stops(). The calls that are made of one share it, whatever they count.
  std::atomic<bool>* stopped = nullptr;
};

// For jobs that may be long, to look at now and then: whether the call is late
// or cancelled. Then it fails whatever the job has written, and the job
// returns.
inline bool Stops(const KernelCall& call) {
  if (call.cancellation == nullptr || call.cancellation->Check().ok()) {
    return false;
  }
  call.stopped->store(true, std::memory_order_relaxed);
  return true;
}

// Whether a job of the call did.
inline bool HasStopped(const KernelCall& call) {
  return call.stopped != nullptr &&
         call.stopped->load(std::memory_order_relaxed);
}

// A kernel bound to a problem: shared by all calls of that problem. Nothing
// here fails but for want of memory (std::bad_alloc). What grows with a call's
// rows or keys lies in its scratch, in arenas, or in what Begin() takes; a job
// may allocate small arrays besides, as some stages do (views of tables, a
// query row). Thread-safe: const.
class Execution {
 public:
  virtual ~Execution() = default;

  virtual int phase_count() const = 0;
  virtual int64_t job_count(int phase) const = 0;
  // Arena bytes of one job, and shared memory of one call.
  virtual size_t worker_scratch_bytes() const = 0;
  virtual size_t call_scratch_bytes() const = 0;
  // Before the first job, once all else of `call` is set; may take memory.
  virtual std::unique_ptr<const CallState> Begin(
      const KernelCall& /*call*/) const {
    return nullptr;
  }
  // Jobs of one phase may run at once; phases run in order. The result does
  // not depend on the worker, the order or the company of a job.
  virtual void RunJob(const KernelCall& call, int phase, int64_t job,
                      Arena& arena) const = 0;
};

// One row of the table of kernels.
class Kernel {
 public:
  virtual ~Kernel() = default;

  virtual const char* name() const = 0;
  // Empty: supported. Otherwise the reason why not, for people to read.
  virtual std::string WhyNot(const Problem& problem) const = 0;
  // For a supported problem.
  virtual std::unique_ptr<const Execution> Prepare(
      const Problem& problem) const = 0;
};

// Every kernel of forward calls, fastest first, the reference last.
absl::Span<const Kernel* const> KernelTable();
// Every kernel of backward calls.
absl::Span<const Kernel* const> BackwardKernelTable();

}  // namespace attn
