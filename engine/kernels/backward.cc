#include "engine/kernels/backward.h"

#include <algorithm>
#include <memory>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/kernels/backward_keys.h"
#include "engine/kernels/backward_queries.h"
#include "engine/kernels/gradient_buffers.h"
#include "engine/kernels/pipeline.h"
#include "engine/kernels/step_phases.h"

namespace attn {
namespace {

// Phase 0 prepares keys and clears buffers. Then each slot of GradientBuffers
// goes along its planes: first every block of query rows of every head of the
// group, then every chunk of keys. One such step of all slots is a phase, so
// that a late call is cancelled between steps, and so that a plane's dK and dV
// are added up by one job at a time, in order. The last phase merges.
class BackwardExecution final : public Execution {
 public:
  explicit BackwardExecution(const Problem& problem)
      : shape_(problem.shape),
        pipeline_(problem),
        keys_(problem, pipeline_),
        queries_(problem, pipeline_),
        buffers_(problem, 0),
        phases_(buffers_.rounds(), steps()) {}

  int phase_count() const override { return 2 + phases_.count(); }
  int64_t job_count(int phase) const override {
    if (phase == 0) return keys_.chunks().count() + buffers_.slots();
    return phase + 1 == phase_count() ? buffers_.merge_jobs()
                                      : buffers_.slots();
  }
  size_t worker_scratch_bytes() const override {
    return std::max(keys_.worker_scratch_bytes(),
                    queries_.worker_scratch_bytes());
  }
  size_t call_scratch_bytes() const override {
    return keys_.call_scratch_bytes() + buffers_.bytes();
  }
  void RunJob(const KernelCall& call, int phase, int64_t job,
              Arena& arena) const override;

 private:
  // Of one plane.
  int64_t steps() const {
    return queries_.blocks_per_plane() + keys_.chunks_per_plane();
  }
  std::byte* BuffersOf(const KernelCall& call) const {
    return call.scratch + keys_.call_scratch_bytes();
  }
  void Start(const KernelCall& call, int64_t job, Arena& arena) const;
  void Step(const KernelCall& call, int64_t plane, int64_t step,
            Arena& arena) const;

  AttentionShape shape_;
  Pipeline pipeline_;
  BackwardKeys keys_;
  BackwardQueries queries_;
  GradientBuffers buffers_;
  StepPhases phases_;
};

void BackwardExecution::RunJob(const KernelCall& call, int phase, int64_t job,
                               Arena& arena) const {
  if (phase == 0) {
    Start(call, job, arena);
  } else if (phase + 1 == phase_count()) {
    buffers_.Merge(call, BuffersOf(call), job);
  } else {
    phases_.ForEach(phase - 1, [&](int64_t round, int64_t step) {
      const int64_t plane = round * buffers_.slots() + job;
      if (plane < buffers_.planes()) Step(call, plane, step, arena);
    });
  }
}

void BackwardExecution::Start(const KernelCall& call, int64_t job,
                              Arena& arena) const {
  const int64_t chunks = keys_.chunks().count();
  if (job < chunks) {
    keys_.Prepare(call, call.scratch, job, arena);
  } else {
    buffers_.Clear(BuffersOf(call), job - chunks);
  }
}

void BackwardExecution::Step(const KernelCall& call, int64_t plane,
                             int64_t step, Arena& arena) const {
  arena.Reset();
  const int64_t slot = plane % buffers_.slots();
  const GradientSink sink = buffers_.SinkOf(BuffersOf(call), slot);
  const int64_t blocks = queries_.blocks_per_plane();
  if (step >= blocks) {
    const int64_t chunk = plane * keys_.chunks_per_plane() + step - blocks;
    keys_.Finish(call, call.scratch, chunk, sink, arena);
    return;
  }
  const RowBlock block = queries_.BlockAt({shape_, *call.args}, plane, step);
  StageGradients stages;
  queries_.Run(call, block, keys_.PlaneOf(call.scratch, plane), {sink, stages},
               arena);
  buffers_.Add(BuffersOf(call), slot, block.head, stages);
}

class Backward final : public Kernel {
 public:
  const char* name() const override { return "backward"; }
  std::string WhyNot(const Problem& problem) const override {
    return std::holds_alternative<LinearNormalizer>(problem.spec.normalizer)
               ? "the normalizer has no rows of scores"
               : "";
  }
  std::unique_ptr<const Execution> Prepare(
      const Problem& problem) const override {
    return std::make_unique<BackwardExecution>(problem);
  }
};

}  // namespace

absl::Status ValidateGradients(const Problem& problem) {
  if (!problem.gradients.any()) return absl::OkStatus();
  const NormalizerSpec& spec = problem.spec.normalizer;
  const NormalizerEntry& entry = NormalizerTable()[spec.index()];
  const std::string why = entry.make(spec, problem)->WhyNoGradient();
  if (!why.empty()) {
    return FieldError("spec.normalizer", entry.describe(spec),
                      absl::StrCat("a normalizer with a gradient: ", why));
  }
  if (problem.gradients.from_lse &&
      std::holds_alternative<LinearNormalizer>(spec)) {
    return FieldError("d_lse", "a tensor",
                      "nothing: linear attention forms no scores, and no lse");
  }
  return absl::OkStatus();
}

const Kernel& BackwardKernel() {
  static const Backward kKernel;
  return kKernel;
}

}  // namespace attn
