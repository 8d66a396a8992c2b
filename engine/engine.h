// The door to the engine: attention on this machine's cores.
//
//   Engine engine({.workers = 2});
//   auto plan = engine.Plan(spec, args, OutputSelection{}, DType::kF32);
//   AttentionOutputs outputs = ...;           // views of memory you own
//   auto report = engine.Run(**plan, args, outputs);
//
// Plan may fail, Run does not (but for cancellation).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"
#include "engine/core/gradients.h"
#include "engine/core/isa_cap.h"
#include "engine/core/problem.h"
#include "engine/engine_call.h"
#include "engine/plan/plan.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/clock.h"

namespace attn {

struct EngineOptions {
  // Compute threads. 0: as many as the CPU quota allows.
  int workers = 0;
  // By how much nicer (0 to 19) they are than the thread that makes the engine:
  // whoever waits for a short moment of a core goes before them.
  int worker_niceness = 0;
  // Plans kept for reuse; a plan is a few hundred bytes.
  size_t plan_cache_capacity = 1024;
  // Injected by tests.
  const Clock* clock = nullptr;
};

// A name and a line of help of one member of a stage.
struct MemberInfo {
  std::string name;
  std::string summary;
};

struct StageInfo {
  // "score", "transform", "bias", "mask", "sparsifier" or "normalizer".
  std::string stage;
  std::vector<MemberInfo> members;
};

// Owns the worker pool and the plans. Thread-safe.
class Engine {
 public:
  explicit Engine(const EngineOptions& options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Validates and plans; looks at no tensor data, so views may be empty.
  // INVALID_ARGUMENT names the field, what came and what was expected.
  absl::StatusOr<std::shared_ptr<const attn::Plan>> Plan(
      const AttentionSpec& spec, const AttentionArgs& args,
      const OutputSelection& outputs, DType output_dtype,
      absl::string_view kernel = "");

  // Looks at the numbers of a call that must be of some range: alphas of
  // entmax, positions in a table of angles. INVALID_ARGUMENT names the field. A
  // call that is not checked gives NaN where they have no meaning.
  static absl::Status CheckValues(const attn::Plan& plan,
                                  const AttentionArgs& args);

  // Starts a call and returns at once. `args` and the memory behind `outputs`
  // and `cancellation` must live until `done` has returned; `done` is called
  // exactly once, on a worker.
  void Submit(std::shared_ptr<const attn::Plan> plan, const AttentionArgs& args,
              const AttentionOutputs& outputs, const Cancellation& cancellation,
              std::function<void(CallReport)> done);

  // Whether a call takes no longer than to hand it to a worker.
  static bool IsSmall(const attn::Plan& plan);
  // Computes a call on the calling thread, and calls its `done` there before it
  // returns. For small calls: nobody else helps.
  void RunHere(ForwardCall call);
  // As Submit() for each, but the short ones (2^24 operations at most) are
  // handed over together: a worker takes a whole one at a time. Bits are those
  // of Submit().
  void SubmitTogether(std::vector<ForwardCall> calls);

  // As Submit, and waits. A small call is computed by the calling thread: to
  // hand it over would take longer than the call.
  CallReport Run(std::shared_ptr<const attn::Plan> plan,
                 const AttentionArgs& args, const AttentionOutputs& outputs);

  // The vector-Jacobian product of the same call: what PlanBackward() plans is
  // run by SubmitBackward(), with the rules of Submit(). INVALID_ARGUMENT says
  // why where a stage of the spec has no gradient. `cotangents` may be without
  // data.
  absl::StatusOr<std::shared_ptr<const attn::Plan>> PlanBackward(
      const AttentionSpec& spec, const AttentionArgs& args,
      const OutputGradients& cotangents, const GradientSelection& wanted);
  void SubmitBackward(std::shared_ptr<const attn::Plan> plan,
                      const AttentionArgs& args,
                      const OutputGradients& cotangents,
                      const InputGradients& gradients,
                      const Cancellation& cancellation,
                      std::function<void(CallReport)> done);
  CallReport RunBackward(std::shared_ptr<const attn::Plan> plan,
                         const AttentionArgs& args,
                         const OutputGradients& cotangents,
                         const InputGradients& gradients);

  int workers() const;
  // Wall time that workers spent in tile jobs, and callers in RunHere(), all
  // together.
  absl::Duration busy_time() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The members of every stage, from the tables.
std::vector<StageInfo> ListStages();
// Names of the kernels in order of preference.
std::vector<std::string> ListKernels();
// Leaves no wider vectors than the cap's to this process: once, before an
// engine computes. FAILED_PRECONDITION if it is too late. Not thread-safe.
absl::Status LimitIsa(IsaCap cap);
// The class of machines that choose kernels alike, e.g. "avx512_bf16".
std::string CpuClassName();
// Instruction set in use, e.g. "AVX3_ZEN4"; and oneDNN's version.
std::string IsaName();
std::string OneDnnVersion();

}  // namespace attn
