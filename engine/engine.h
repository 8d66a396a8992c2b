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
#include "engine/core/problem.h"
#include "engine/core/row_statistics.h"
#include "engine/plan/plan.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/clock.h"

namespace attn {

struct EngineOptions {
  // Compute threads. 0: as many as the CPU quota allows.
  int workers = 0;
  // Plans kept for reuse; a plan is a few hundred bytes.
  size_t plan_cache_capacity = 1024;
  // Injected by tests.
  const Clock* clock = nullptr;
};

// What a finished call knows of itself.
struct CallReport {
  absl::Status status;
  // Time from Submit to the first tile, and from the first to the last.
  absl::Duration queued;
  absl::Duration computed;
  // Among the rows and keys within the lengths.
  int64_t nonfinite_q = 0;
  int64_t nonfinite_k = 0;
  int64_t nonfinite_v = 0;
  int64_t nonfinite_outputs = 0;
  // Rows that saw no key.
  int64_t fully_masked_rows = 0;
  // [B, Hq, Sq], empty unless the status is OK.
  std::vector<RowStatistics> row_statistics;
};

// A name and a line of help of one member of a stage.
struct MemberInfo {
  std::string name;
  std::string summary;
};

struct StageInfo {
  std::string stage;  // "score", "bias", "mask", "normalizer"
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

  // Starts a call and returns at once. `args` and the memory behind `outputs`
  // and `cancellation` must live until `done` has returned; `done` is called
  // exactly once, on a worker.
  void Submit(std::shared_ptr<const attn::Plan> plan,
              const AttentionArgs& args, const AttentionOutputs& outputs,
              const Cancellation& cancellation,
              std::function<void(CallReport)> done);

  // As Submit, and waits.
  CallReport Run(std::shared_ptr<const attn::Plan> plan,
                 const AttentionArgs& args, const AttentionOutputs& outputs);

  int workers() const;
  // Wall time that workers spent in tile jobs, all together.
  absl::Duration busy_time() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The members of every stage, from the tables.
std::vector<StageInfo> ListStages();
// Names of the kernels in order of preference.
std::vector<std::string> ListKernels();
// Instruction set in use, e.g. "AVX3_ZEN4"; and oneDNN's version.
std::string IsaName();
std::string OneDnnVersion();

}  // namespace attn
