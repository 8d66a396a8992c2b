#include "engine/kernels/softmax_backward.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <variant>

#include "engine/kernels/gradient_buffers.h"
#include "engine/kernels/pipeline.h"
#include "engine/kernels/softmax_keys.h"
#include "engine/kernels/softmax_queries.h"
#include "engine/kernels/step_phases.h"

namespace attn {
namespace {

// Query heads that share a KV head add to the same dK and dV. So that they can
// run side by side in a call of few KV heads, a plane has several lanes, each
// with gradients of its own: of so many blocks of rows at least, and so many
// lanes of all KV heads at most.
constexpr int64_t kLaneBlocks = 4;
constexpr int64_t kLanesOfEntry = 8;
constexpr int64_t kMaxLanes = 4;
// Bytes of a plane's gradients beyond which it has no further lane.
constexpr int64_t kLaneBytes = int64_t{32} << 20;
// Multiplications of a step, about a millisecond: so long K and V of one head
// stay in the cache of the core that works on it.
constexpr int64_t kStepProducts = 50'000'000;

int64_t Lanes(const AttentionShape& shape, int64_t blocks) {
  const int64_t plane_bytes =
      std::max<int64_t>(4 * shape.kv_length * (shape.k_dim + shape.v_dim), 1);
  return std::max<int64_t>(
      std::min({blocks / kLaneBlocks, kMaxLanes,
                kLanesOfEntry / std::max<int64_t>(shape.kv_heads, 1),
                kLaneBytes / plane_bytes}),
      1);
}

// Phase 0 prepares keys and clears buffers. A plane is a KV head of a batch
// entry; its blocks of query rows go to its lanes in turn. Each slot of
// GradientBuffers goes along its lanes, a step of some blocks in a phase; then
// along its planes, a chunk of keys in a phase. The last phase merges. So sums
// are added up by one job at a time, in an order that follows from the extents
// of a plane alone.
class SoftmaxBackwardExecution final : public Execution {
 public:
  explicit SoftmaxBackwardExecution(const Problem& problem)
      : shape_(problem.shape),
        pipeline_(problem),
        queries_(problem, pipeline_),
        lanes_(Lanes(shape_, queries_.blocks_per_plane())),
        blocks_per_lane_((queries_.blocks_per_plane() + lanes_ - 1) / lanes_),
        blocks_per_step_(BlocksPerStep()),
        keys_(problem, pipeline_, lanes_),
        buffers_(problem, 0, lanes_),
        query_phases_(
            buffers_.rounds(),
            (blocks_per_lane_ + blocks_per_step_ - 1) / blocks_per_step_),
        key_phases_(buffers_.rounds(), keys_.chunks_per_plane()) {}

  int phase_count() const override {
    return 2 + query_phases_.count() + key_phases_.count();
  }
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
  int64_t BlocksPerStep() const {
    const int64_t products =
        queries_.block_rows() * std::max<int64_t>(shape_.kv_length, 1) *
        std::max<int64_t>(3 * shape_.k_dim + 2 * shape_.v_dim, 1);
    return std::max<int64_t>(kStepProducts / products, 1);
  }
  std::byte* BuffersOf(const KernelCall& call) const {
    return call.scratch + keys_.call_scratch_bytes();
  }
  void Start(const KernelCall& call, int64_t job, Arena& arena) const;
  // `lane` counts the lanes of all planes.
  void RunQueries(const KernelCall& call, int64_t lane, int64_t step,
                  Arena& arena) const;
  void FinishKeys(const KernelCall& call, int64_t lane, int64_t chunk,
                  Arena& arena) const;

  AttentionShape shape_;
  Pipeline pipeline_;
  SoftmaxQueries queries_;
  int64_t lanes_;
  int64_t blocks_per_lane_;
  int64_t blocks_per_step_;
  SoftmaxKeys keys_;
  GradientBuffers buffers_;
  StepPhases query_phases_;
  StepPhases key_phases_;
};

void SoftmaxBackwardExecution::RunJob(const KernelCall& call, int phase,
                                      int64_t job, Arena& arena) const {
  if (phase == 0) return Start(call, job, arena);
  if (phase + 1 == phase_count()) {
    return buffers_.Merge(call, BuffersOf(call), job);
  }
  const int step_phase = phase - 1;
  const bool of_keys = step_phase >= query_phases_.count();
  const auto run = [&](int64_t round, int64_t step) {
    const int64_t lane = round * buffers_.slots() + job;
    if (lane >= buffers_.planes()) return;
    arena.Reset();
    if (of_keys) {
      FinishKeys(call, lane, step, arena);
    } else {
      RunQueries(call, lane, step, arena);
    }
  };
  if (of_keys) {
    key_phases_.ForEach(step_phase - query_phases_.count(), run);
  } else {
    query_phases_.ForEach(step_phase, run);
  }
}

void SoftmaxBackwardExecution::Start(const KernelCall& call, int64_t job,
                                     Arena& arena) const {
  const int64_t chunks = keys_.chunks().count();
  if (job < chunks) {
    keys_.Prepare(call, call.scratch, job, arena);
  } else {
    buffers_.Clear(BuffersOf(call), job - chunks);
  }
}

void SoftmaxBackwardExecution::RunQueries(const KernelCall& call, int64_t lane,
                                          int64_t step, Arena& arena) const {
  const CallView view{shape_, *call.args};
  const int64_t plane = lane / lanes_;
  const int64_t slot = lane % buffers_.slots();
  const GradientSink sink = buffers_.SinkOf(BuffersOf(call), slot);
  const SoftmaxKeyPlane keys =
      keys_.PlaneOf(call.scratch, plane, lane % lanes_);
  const int64_t begin = step * blocks_per_step_;
  const int64_t end = std::min(begin + blocks_per_step_, blocks_per_lane_);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t index = i * lanes_ + lane % lanes_;
    if (index >= queries_.blocks_per_plane()) return;
    arena.Reset();
    StageGradients stages;
    const RowBlock block = queries_.BlockAt(view, plane, index);
    queries_.Run(call, block, keys, {sink, stages}, arena);
    buffers_.Add(BuffersOf(call), slot, block.head, stages);
  }
}

void SoftmaxBackwardExecution::FinishKeys(const KernelCall& call, int64_t lane,
                                          int64_t chunk, Arena& arena) const {
  if (lane % lanes_ != 0) return;
  const GradientSink sink =
      buffers_.SinkOf(BuffersOf(call), lane % buffers_.slots());
  keys_.Finish(call, call.scratch,
               lane / lanes_ * keys_.chunks_per_plane() + chunk, sink, arena);
}

class SoftmaxBackward final : public Kernel {
 public:
  const char* name() const override { return "softmax_backward"; }
  std::string WhyNot(const Problem& problem) const override;
  std::unique_ptr<const Execution> Prepare(
      const Problem& problem) const override {
    return std::make_unique<SoftmaxBackwardExecution>(problem);
  }
};

std::string SoftmaxBackward::WhyNot(const Problem& problem) const {
  const AttentionSpec& spec = problem.spec;
  if (problem.dtype == DType::kF64) {
    return "accumulates in F32; F64 tensors need double";
  }
  if (!std::holds_alternative<SoftmaxNormalizer>(spec.normalizer) &&
      !std::holds_alternative<SoftmaxPlusNormalizer>(spec.normalizer)) {
    return "the normalizer is neither softmax nor softmax_plus";
  }
  if (spec.score_program.has_value() || spec.weight_program.has_value()) {
    return "programs go back in double";
  }
  if (spec.dropout.has_value() && spec.dropout->renormalize) {
    return "dropout renormalises: its gradient needs sums of kept weights";
  }
  const Pipeline pipeline(problem);
  if (!pipeline.score().is_dot()) return "the score is no matrix product";
  // Scores in F32 have a scale in F32.
  const double scale = std::abs(pipeline.score().static_scale());
  return scale > 0x1p100 ? "no F32 holds scores of such a scale" : "";
}

}  // namespace

const Kernel& SoftmaxBackwardKernel() {
  static const SoftmaxBackward kKernel;
  return kKernel;
}

}  // namespace attn
