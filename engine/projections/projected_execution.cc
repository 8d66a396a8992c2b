#include "engine/projections/projected_execution.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/projections/copy_step.h"
#include "engine/projections/head_inputs.h"
#include "engine/projections/linear_step.h"
#include "engine/projections/row_gradient_step.h"
#include "engine/projections/scratch_layout.h"
#include "engine/projections/step_group.h"

namespace attn {
namespace {

// What a call keeps while it runs: the call that the heads see.
class ProjectedState final : public CallState {
 public:
  AttentionArgs args;
  KernelCall heads;
  std::unique_ptr<const CallState> heads_state;
};

class ProjectedExecution final : public Execution {
 public:
  ProjectedExecution(const Problem& problem,
                     std::unique_ptr<const Execution> heads);

  int phase_count() const override {
    return static_cast<int>(inputs_.phases.size() + after_.size()) +
           heads_->phase_count();
  }
  int64_t job_count(int phase) const override;
  size_t worker_scratch_bytes() const override;
  size_t call_scratch_bytes() const override {
    return own_bytes_ + heads_->call_scratch_bytes();
  }
  std::unique_ptr<const CallState> Begin(const KernelCall& call) const override;
  void RunJob(const KernelCall& call, int phase, int64_t job,
              Arena& arena) const override;

 private:
  void PlanOutput(const Problem& problem, ScratchLayout& layout);
  void PlanCotangent(const Problem& problem, ScratchLayout& layout);
  // The steps of a phase before or after the heads, and what remains of
  // `phase` otherwise.
  const StepGroup* StepsOf(int& phase) const;

  std::unique_ptr<const Execution> heads_;
  HeadInputs inputs_;
  std::vector<StepGroup> after_;
  // [B, Hq, Sq, d_v], if the heads do not write the call's output themselves.
  std::optional<RowSource> joined_;
  // Their gradient, if the call has one and an output layer.
  std::optional<RowSource> of_joined_;
  size_t own_bytes_ = 0;
};

ProjectedExecution::ProjectedExecution(const Problem& problem,
                                       std::unique_ptr<const Execution> heads)
    : heads_(std::move(heads)) {
  ScratchLayout layout(problem);
  inputs_ = PlanHeadInputs(problem, /*keep_normed=*/false, layout);
  PlanOutput(problem, layout);
  PlanCotangent(problem, layout);
  own_bytes_ = layout.bytes();
}

void ProjectedExecution::PlanOutput(const Problem& problem,
                                    ScratchLayout& layout) {
  const AttentionShape& s = problem.shape;
  const auto& spec = problem.spec.projections;
  const bool layer =
      spec.has_value() && spec->output.has_value() && problem.outputs.output;
  if (!layer && !problem.outputs.head_output) return;
  const RowSource rows = layout.Rows(s.batch, s.q_length, s.q_heads * s.v_dim);
  joined_ = SplitRows(rows, s.q_heads, s.v_dim, 0, s.v_dim);
  after_.resize(1);
  if (layer) {
    after_[0].Add(MakeLinearStep(problem, {.source = rows,
                                           .norm = std::nullopt,
                                           .normed = std::nullopt,
                                           .layer = *spec->output,
                                           .target = std::nullopt}));
  }
  if (problem.outputs.head_output) {
    after_[0].Add(MakeHeadOutputStep(problem, *joined_));
  }
}

void ProjectedExecution::PlanCotangent(const Problem& problem,
                                       ScratchLayout& layout) {
  const AttentionShape& s = problem.shape;
  const auto& spec = problem.spec.projections;
  const bool layer = spec.has_value() && spec->output.has_value();
  if (!layer || !problem.outputs.gradient_weight) return;
  const RowSource rows = layout.Rows(s.batch, s.q_length, s.q_heads * s.v_dim);
  of_joined_ = SplitRows(rows, s.q_heads, s.v_dim, 0, s.v_dim);
  if (inputs_.phases.empty()) inputs_.phases.resize(1);
  inputs_.phases[0].Add(MakeRowGradientStep(
      problem, {RowSource::OfCall(RowSource::Place::kOutputGradient),
                spec->output->weight, rows}));
}

const StepGroup* ProjectedExecution::StepsOf(int& phase) const {
  const auto before = static_cast<int>(inputs_.phases.size());
  if (phase < before) return &inputs_.phases[static_cast<size_t>(phase)];
  phase -= before;
  if (phase < heads_->phase_count()) return nullptr;
  return &after_[static_cast<size_t>(phase - heads_->phase_count())];
}

int64_t ProjectedExecution::job_count(int phase) const {
  const StepGroup* steps = StepsOf(phase);
  return steps == nullptr ? heads_->job_count(phase) : steps->job_count();
}

size_t ProjectedExecution::worker_scratch_bytes() const {
  size_t bytes = heads_->worker_scratch_bytes();
  for (const auto* phases : {&inputs_.phases, &after_}) {
    for (const StepGroup& steps : *phases) {
      bytes = std::max(bytes, steps.worker_scratch_bytes());
    }
  }
  return bytes;
}

std::unique_ptr<const CallState> ProjectedExecution::Begin(
    const KernelCall& call) const {
  auto state = std::make_unique<ProjectedState>();
  state->args = *call.args;
  state->args.q = inputs_.q.View(call);
  state->args.k = inputs_.k.View(call);
  state->args.v = inputs_.v.View(call);
  if (of_joined_.has_value()) state->args.d_output = of_joined_->View(call);
  state->heads = call;
  state->heads.args = &state->args;
  state->heads.scratch = call.scratch + own_bytes_;
  state->heads.outputs.head_output.data = nullptr;
  if (joined_.has_value()) {
    state->heads.outputs.output = joined_->Target(call);
  }
  state->heads_state = heads_->Begin(state->heads);
  state->heads.state = state->heads_state.get();
  return state;
}

void ProjectedExecution::RunJob(const KernelCall& call, int phase, int64_t job,
                                Arena& arena) const {
  const StepGroup* steps = StepsOf(phase);
  if (steps != nullptr) {
    steps->RunJob(call, job, arena);
    return;
  }
  const auto& state = static_cast<const ProjectedState&>(*call.state);
  heads_->RunJob(state.heads, phase, job, arena);
}

}  // namespace

bool NeedsProjection(const Problem& problem) {
  return problem.spec.projections.has_value() || problem.outputs.head_output;
}

std::unique_ptr<const Execution> MakeProjectedExecution(
    const Problem& problem, std::unique_ptr<const Execution> heads) {
  return std::make_unique<ProjectedExecution>(problem, std::move(heads));
}

}  // namespace attn
