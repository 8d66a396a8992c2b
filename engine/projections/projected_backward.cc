#include "engine/projections/projected_backward.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/projections/head_gradients.h"
#include "engine/projections/head_inputs.h"
#include "engine/projections/layer_gradients.h"
#include "engine/projections/row_gradient_step.h"
#include "engine/projections/scratch_layout.h"
#include "engine/projections/step_group.h"

namespace attn {
namespace {

// What a call keeps while it runs: the calls that the heads see.
class ProjectedBackwardState final : public CallState {
 public:
  AttentionArgs args;
  KernelCall forward;
  KernelCall backward;
  // The way forth counts nothing: the way back looks at the same rows.
  CallCounters uncounted;
  std::unique_ptr<const CallState> forward_state;
  std::unique_ptr<const CallState> backward_state;
};

// Phases: the heads' inputs and the gradient of the heads' outputs; the heads'
// outputs if they are needed; the way back over the heads; over the layers;
// sums over the rows.
class ProjectedBackward final : public Execution {
 public:
  ProjectedBackward(const Problem& problem,
                    std::unique_ptr<const Execution> forward,
                    std::unique_ptr<const Execution> backward);

  int phase_count() const override;
  int64_t job_count(int phase) const override;
  size_t worker_scratch_bytes() const override;
  size_t call_scratch_bytes() const override {
    return own_bytes_ + forward_bytes() + backward_->call_scratch_bytes();
  }
  std::unique_ptr<const CallState> Begin(const KernelCall& call) const override;
  void RunJob(const KernelCall& call, int phase, int64_t job,
              Arena& arena) const override;

 private:
  // Who has a phase, and which of its own it is.
  struct Place {
    const StepGroup* steps = nullptr;
    const Execution* heads = nullptr;
    int phase = 0;
  };
  Place Find(int phase) const;
  int forward_phases() const {
    return forward_ == nullptr ? 0 : forward_->phase_count();
  }
  size_t forward_bytes() const {
    return forward_ == nullptr ? 0
                               : Arena::Padded(forward_->call_scratch_bytes());
  }
  void PlanOutput(const Problem& problem, ScratchLayout& layout,
                  LayerGradients& gradients);
  void BeginForward(const KernelCall& call,
                    ProjectedBackwardState& state) const;
  void BeginBackward(const KernelCall& call,
                     ProjectedBackwardState& state) const;

  std::unique_ptr<const Execution> forward_;
  std::unique_ptr<const Execution> backward_;
  HeadInputs inputs_;
  std::vector<StepGroup> after_;
  // By head: the outputs and their gradient, if there is an output layer.
  std::optional<RowSource> joined_;
  std::optional<RowSource> of_joined_;
  HeadGradients of_heads_;
  size_t own_bytes_ = 0;
};

ProjectedBackward::ProjectedBackward(const Problem& problem,
                                     std::unique_ptr<const Execution> forward,
                                     std::unique_ptr<const Execution> backward)
    : forward_(std::move(forward)), backward_(std::move(backward)) {
  ScratchLayout layout(problem);
  LayerGradients gradients(problem, layout);
  inputs_ = PlanHeadInputs(problem, /*keep_normed=*/true, layout);
  PlanOutput(problem, layout, gradients);
  of_heads_ = PlanHeadGradients(problem, inputs_, layout, gradients);
  after_ = std::move(of_heads_.phases);
  for (StepGroup& steps : gradients.MakePhases()) {
    after_.push_back(std::move(steps));
  }
  own_bytes_ = layout.bytes();
}

void ProjectedBackward::PlanOutput(const Problem& problem,
                                   ScratchLayout& layout,
                                   LayerGradients& gradients) {
  const auto& layer = problem.spec.projections->output;
  if (!layer.has_value()) return;
  if (!problem.gradients.from_output) {
    gradients.AddZero(*layer);
    return;
  }
  const AttentionShape& s = problem.shape;
  const RowSource of_output =
      RowSource::OfCall(RowSource::Place::kOutputGradient);
  const RowSource of_rows =
      layout.Rows(s.batch, s.q_length, s.q_heads * s.v_dim);
  of_joined_ = SplitRows(of_rows, s.q_heads, s.v_dim, 0, s.v_dim);
  if (inputs_.phases.empty()) inputs_.phases.resize(1);
  inputs_.phases[0].Add(
      MakeRowGradientStep(problem, {of_output, layer->weight, of_rows}));
  if (forward_ == nullptr) return;
  const RowSource rows = layout.Rows(s.batch, s.q_length, s.q_heads * s.v_dim);
  joined_ = SplitRows(rows, s.q_heads, s.v_dim, 0, s.v_dim);
  gradients.AddLayer(*layer, rows, of_output);
}

int ProjectedBackward::phase_count() const {
  return static_cast<int>(inputs_.phases.size() + after_.size()) +
         forward_phases() + backward_->phase_count();
}

ProjectedBackward::Place ProjectedBackward::Find(int phase) const {
  const auto before = static_cast<int>(inputs_.phases.size());
  if (phase < before) {
    return {&inputs_.phases[static_cast<size_t>(phase)], nullptr, 0};
  }
  phase -= before;
  if (phase < forward_phases()) return {nullptr, forward_.get(), phase};
  phase -= forward_phases();
  if (phase < backward_->phase_count()) {
    return {nullptr, backward_.get(), phase};
  }
  phase -= backward_->phase_count();
  return {&after_[static_cast<size_t>(phase)], nullptr, 0};
}

int64_t ProjectedBackward::job_count(int phase) const {
  const Place place = Find(phase);
  return place.steps != nullptr ? place.steps->job_count()
                                : place.heads->job_count(place.phase);
}

size_t ProjectedBackward::worker_scratch_bytes() const {
  size_t bytes = backward_->worker_scratch_bytes();
  if (forward_ != nullptr) {
    bytes = std::max(bytes, forward_->worker_scratch_bytes());
  }
  for (const auto* phases : {&inputs_.phases, &after_}) {
    for (const StepGroup& steps : *phases) {
      bytes = std::max(bytes, steps.worker_scratch_bytes());
    }
  }
  return bytes;
}

std::unique_ptr<const CallState> ProjectedBackward::Begin(
    const KernelCall& call) const {
  auto state = std::make_unique<ProjectedBackwardState>();
  state->args = *call.args;
  state->args.q = inputs_.q.View(call);
  state->args.k = inputs_.k.View(call);
  state->args.v = inputs_.v.View(call);
  if (forward_ != nullptr) BeginForward(call, *state);
  BeginBackward(call, *state);
  return state;
}

void ProjectedBackward::BeginForward(const KernelCall& call,
                                     ProjectedBackwardState& state) const {
  KernelCall& forward = state.forward;
  forward = call;
  forward.args = &state.args;
  forward.counters = &state.uncounted;
  forward.scratch = call.scratch + own_bytes_;
  forward.outputs.output = joined_->Target(call);
  state.forward_state = forward_->Begin(forward);
  forward.state = state.forward_state.get();
}

void ProjectedBackward::BeginBackward(const KernelCall& call,
                                      ProjectedBackwardState& state) const {
  KernelCall& backward = state.backward;
  backward = call;
  backward.args = &state.args;
  backward.scratch = call.scratch + own_bytes_ + forward_bytes();
  if (of_joined_.has_value()) {
    backward.cotangents.output = of_joined_->View(call);
  }
  const auto place = [&call](const std::optional<RowSource>& rows,
                             MutableTensorView& gradient) {
    if (rows.has_value()) {
      gradient = rows->Target(call);
    } else {
      gradient.data = nullptr;
    }
  };
  place(of_heads_.q, backward.gradients.q);
  place(of_heads_.k, backward.gradients.k);
  place(of_heads_.v, backward.gradients.v);
  state.backward_state = backward_->Begin(backward);
  backward.state = state.backward_state.get();
}

void ProjectedBackward::RunJob(const KernelCall& call, int phase, int64_t job,
                               Arena& arena) const {
  const Place place = Find(phase);
  if (place.steps != nullptr) return place.steps->RunJob(call, job, arena);
  const auto& state = static_cast<const ProjectedBackwardState&>(*call.state);
  const KernelCall& heads =
      place.heads == forward_.get() ? state.forward : state.backward;
  place.heads->RunJob(heads, place.phase, job, arena);
}

}  // namespace

Problem BackwardHeadProblem(const Problem& problem) {
  Problem heads = HeadProblem(problem);
  const WantedRows wanted = WantedHeadGradients(problem);
  heads.gradients.q = wanted.q;
  heads.gradients.k = wanted.k;
  heads.gradients.v = wanted.v;
  const std::set<uint32_t> alone = InputsOfLayersAlone(problem.spec);
  std::erase_if(heads.gradients.inputs,
                [&alone](uint32_t input) { return alone.contains(input); });
  return heads;
}

bool NeedsHeadOutputs(const Problem& problem) {
  return problem.gradients.from_output &&
         WantsLayer(problem.gradients, problem.spec.projections->output);
}

Problem ForwardHeadProblem(const Problem& problem) {
  Problem heads = HeadProblem(problem);
  heads.gradients = {};
  heads.outputs.output = true;
  heads.output_dtype = ScratchLayout::WideType(problem);
  return heads;
}

std::unique_ptr<const Execution> MakeProjectedBackward(
    const Problem& problem, std::unique_ptr<const Execution> forward,
    std::unique_ptr<const Execution> backward) {
  return std::make_unique<ProjectedBackward>(problem, std::move(forward),
                                             std::move(backward));
}

}  // namespace attn
