#include "engine/kernels/linear_backward.h"

#include <algorithm>
#include <array>
#include <memory>
#include <variant>

#include "engine/kernels/gradient_buffers.h"
#include "engine/kernels/gradient_rows.h"
#include "engine/kernels/head_rows.h"
#include "engine/kernels/job_memory.h"
#include "engine/kernels/linear_rule.h"
#include "engine/kernels/linear_states.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/kernels/step_phases.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Phase 0 clears buffers, the last merges. Between them each slot goes along
// its planes, a step of all slots in a phase: forward over LinearStates'
// segments; bidirectional rows, which all see the last state; back over the
// segments, with causal rows on the way; the initial state's gradient.
class LinearBackwardExecution final : public Execution {
 public:
  explicit LinearBackwardExecution(const Problem& problem)
      : shape_(problem.shape),
        spec_(std::get<LinearNormalizer>(problem.spec.normalizer)),
        rule_(spec_, shape_),
        pipeline_(problem),
        states_(shape_),
        buffers_(problem, states_.bytes()),
        phases_(buffers_.rounds(), steps()) {}

  int phase_count() const override { return 2 + phases_.count(); }
  int64_t job_count(int phase) const override {
    return phase + 1 == phase_count() ? buffers_.merge_jobs()
                                      : buffers_.slots();
  }
  size_t worker_scratch_bytes() const override {
    Rows rows;
    return JobBytes(ArraysOf(rows));
  }
  size_t call_scratch_bytes() const override {
    return buffers_.bytes() +
           static_cast<size_t>(buffers_.slots()) * states_.bytes();
  }
  void RunJob(const KernelCall& call, int phase, int64_t job,
              Arena& arena) const override;

 private:
  // The rows of one job, double precision; d is d_q = d_k.
  struct Rows {
    double* kept = nullptr;    // rows on their way, see RowsRecord
    double* phi = nullptr;     // [d], and its gradient
    double* of_phi = nullptr;  // [d]
    double* of_row = nullptr;  // [d]
    double* decay = nullptr;   // [d]
    double* v = nullptr;       // [d_v], or the gradient of an output
    double* of_v = nullptr;    // [d_v]
    double* change = nullptr;  // [d_v], or an output before its factor
  };
  struct Head {
    const KernelCall& call;
    const CallView& view;
    const GradientSink& sink;
    StageGradients& stages;
    int64_t batch = 0;
    int64_t kv_head = 0;
    std::byte* states = nullptr;
    Rows rows;
  };

  int64_t row_steps() const {
    const int64_t rows = states_.segment_keys();
    return spec_.bidirectional ? (shape_.q_length + rows - 1) / rows : 0;
  }
  int64_t steps() const { return 2 * states_.segments() + row_steps() + 1; }
  std::array<JobArray, 8> ArraysOf(Rows& rows) const;
  void RunStep(const KernelCall& call, int64_t plane, int64_t step,
               Arena& arena) const;

  void Step(const Head& head, int64_t step) const;
  LinearKey LoadKey(const Head& head, int64_t key) const;
  void SegmentForward(const Head& head, int64_t segment, bool keep) const;
  void SegmentBackward(const Head& head, int64_t segment) const;
  void KeyBackward(const Head& head, int64_t key,
                   const LinearState& before) const;
  void GroupBackward(const Head& head, int64_t row,
                     const LinearState& state) const;
  double Answer(const Head& head, const RowSpan& span,
                const LinearState& state) const;
  double FactorBackward(const Head& head, const RowBlock& block,
                        double divisor) const;
  void RowBackward(const Head& head, const RowBlock& block,
                   const LinearState& state) const;
  void FeatureRowBackward(const Head& head, Side side, const RowSpan& span,
                          const MutableTensorView& to) const;

  AttentionShape shape_;
  LinearNormalizer spec_;
  LinearRule rule_;
  Pipeline pipeline_;
  LinearStates states_;
  GradientBuffers buffers_;
  StepPhases phases_;
};

std::array<JobArray, 8> LinearBackwardExecution::ArraysOf(Rows& rows) const {
  const int64_t d = shape_.k_dim;
  const int64_t kept = std::max(pipeline_.kept_stages(Side::kQuery),
                                pipeline_.kept_stages(Side::kKey));
  return {{{&rows.kept, kept * d},
           {&rows.phi, d},
           {&rows.of_phi, d},
           {&rows.of_row, d},
           {&rows.decay, d},
           {&rows.v, shape_.v_dim},
           {&rows.of_v, shape_.v_dim},
           {&rows.change, shape_.v_dim}}};
}

void LinearBackwardExecution::RunJob(const KernelCall& call, int phase,
                                     int64_t job, Arena& arena) const {
  if (phase == 0) return buffers_.Clear(call.scratch, job);
  if (phase + 1 == phase_count()) {
    return buffers_.Merge(call, call.scratch, job);
  }
  phases_.ForEach(phase - 1, [&](int64_t round, int64_t step) {
    const int64_t plane = round * buffers_.slots() + job;
    if (plane < buffers_.planes()) RunStep(call, plane, step, arena);
  });
}

void LinearBackwardExecution::RunStep(const KernelCall& call, int64_t plane,
                                      int64_t step, Arena& arena) const {
  arena.Reset();
  const int64_t slot = plane % buffers_.slots();
  const CallView view{shape_, *call.args};
  const GradientSink sink = buffers_.SinkOf(call.scratch, slot);
  StageGradients stages;
  Head head{call,
            view,
            sink,
            stages,
            plane / shape_.kv_heads,
            plane % shape_.kv_heads,
            call.scratch + buffers_.bytes() +
                static_cast<size_t>(slot) * states_.bytes(),
            {}};
  TakeJobMemory(ArraysOf(head.rows), arena);
  Step(head, step);
  buffers_.Add(call.scratch, slot, 0, stages);
}

void LinearBackwardExecution::Step(const Head& head, int64_t step) const {
  const int64_t plane = head.batch * shape_.kv_heads + head.kv_head;
  const int64_t segments = states_.segments();
  if (step == 0) {
    states_.Clear(states_.Gradient(head.states));
    rule_.LoadState(head.view, plane, states_.Checkpoint(head.states, 0));
  }
  if (step < segments) return SegmentForward(head, step, /*keep=*/false);
  step -= segments;
  if (step < row_steps()) {
    const int64_t begin = step * states_.segment_keys();
    const int64_t end =
        std::min(begin + states_.segment_keys(), shape_.q_length);
    for (int64_t row = begin; row < end; ++row) {
      GroupBackward(head, row, states_.Checkpoint(head.states, segments));
    }
    return;
  }
  step -= row_steps();
  if (step < segments) return SegmentBackward(head, segments - 1 - step);
  rule_.StateBackward(plane, states_.Gradient(head.states), head.sink);
}

// What the key brings to the state; `rows.kept` keeps the row on its way.
LinearKey LinearBackwardExecution::LoadKey(const Head& head,
                                           int64_t key) const {
  const Rows& rows = head.rows;
  KeyRows(head.call, head.batch, head.kv_head).Load(key, 1, rows.kept);
  ValueRows(head.call, head.batch, head.kv_head).Load(key, 1, rows.v);
  const double* k = pipeline_.PrepareAndKeep(
      head.view, Side::kKey,
      {{head.batch, head.kv_head, key, 1}, rows.kept, nullptr});
  for (int64_t i = 0; i < shape_.k_dim; ++i) rows.phi[i] = rule_.Feature(k[i]);
  LinearKey loaded{head.batch, head.kv_head, key,        rows.phi,
                   rows.v,     rows.decay,   rows.change};
  rule_.LoadGates(head.view, &loaded);
  return loaded;
}

// To the next segment's checkpoint; `keep`: to the states within the segment.
void LinearBackwardExecution::SegmentForward(const Head& head, int64_t segment,
                                             bool keep) const {
  const int64_t begin = segment * states_.segment_keys();
  const int64_t end =
      std::min(begin + states_.segment_keys(), shape_.kv_length);
  const int64_t keys = head.view.kv_length(head.batch);
  LinearState state = states_.Checkpoint(head.states, segment);
  if (!keep) {
    const LinearState next = states_.Checkpoint(head.states, segment + 1);
    states_.Copy(state, next);
    state = next;
  }
  for (int64_t key = begin; key < end; ++key) {
    if (keep) {
      const LinearState next = states_.After(head.states, key - begin);
      states_.Copy(state, next);
      state = next;
    }
    if (key >= keys) continue;
    rule_.Absorb(LoadKey(head, key), state);
    if (keep) continue;
    head.call.counters->nonfinite_k.fetch_add(
        CountNonFinite(head.rows.kept, shape_.k_dim),
        std::memory_order_relaxed);
    head.call.counters->nonfinite_v.fetch_add(
        CountNonFinite(head.rows.v, shape_.v_dim), std::memory_order_relaxed);
  }
}

void LinearBackwardExecution::SegmentBackward(const Head& head,
                                              int64_t segment) const {
  SegmentForward(head, segment, /*keep=*/true);
  const int64_t begin = segment * states_.segment_keys();
  const int64_t end =
      std::min(begin + states_.segment_keys(), shape_.kv_length);
  const int64_t rows = head.view.q_length(head.batch);
  const int64_t keys = head.view.kv_length(head.batch);
  for (int64_t at = end - 1; at >= begin; --at) {
    if (!spec_.bidirectional) {
      GroupBackward(head, at, states_.After(head.states, at - begin));
    }
    const RowSpan range{head.batch, head.kv_head, at, 1};
    StoreHeadRows(head.call, head.call.gradients.k, range, nullptr);
    StoreHeadRows(head.call, head.call.gradients.v, range, nullptr);
    // A key that no row sees is not read: there may be NaN in it.
    const bool seen = spec_.bidirectional ? rows > 0 : at < rows;
    if (at >= keys || !seen) continue;
    KeyBackward(head, at,
                at == begin ? states_.Checkpoint(head.states, segment)
                            : states_.After(head.states, at - begin - 1));
  }
}

void LinearBackwardExecution::KeyBackward(const Head& head, int64_t key,
                                          const LinearState& before) const {
  const Rows& rows = head.rows;
  const LinearKey loaded = LoadKey(head, key);
  rule_.AbsorbBackward(head.view, loaded, before,
                       {states_.Gradient(head.states), rows.of_phi, rows.of_v},
                       head.sink);
  FeatureRowBackward(head, Side::kKey, {head.batch, head.kv_head, key, 1},
                     head.call.gradients.k);
  StoreHeadRows(head.call, head.call.gradients.v,
                {head.batch, head.kv_head, key, 1}, rows.of_v);
}

// From rows.of_phi to the row's own gradient.
void LinearBackwardExecution::FeatureRowBackward(
    const Head& head, Side side, const RowSpan& span,
    const MutableTensorView& to) const {
  const Rows& rows = head.rows;
  const double* x =
      rows.kept + (pipeline_.kept_stages(side) - 1) * shape_.k_dim;
  for (int64_t i = 0; i < shape_.k_dim; ++i) {
    rows.of_phi[i] *= rule_.FeatureSlope(x[i]);
  }
  pipeline_.PrepareBackward(head.view, side, {span, rows.kept, nullptr},
                            {rows.of_phi, rows.of_row}, head.sink);
  StoreHeadRows(head.call, to, span, rows.of_row);
}

void LinearBackwardExecution::GroupBackward(const Head& head, int64_t row,
                                            const LinearState& state) const {
  const int64_t group = shape_.group_size();
  const int64_t keys = head.view.kv_length(head.batch);
  for (int64_t g = 0; g < group; ++g) {
    const int64_t q_head = head.kv_head * group + g;
    RowStatistics& statistics =
        head.call.row_statistics[(head.batch * shape_.q_heads + q_head) *
                                     shape_.q_length +
                                 row];
    statistics = RowStatistics{};
    if (row >= head.view.q_length(head.batch)) {
      StoreHeadRows(head.call, head.call.gradients.q,
                    {head.batch, q_head, row, 1}, nullptr);
      continue;
    }
    statistics.visible_keys =
        spec_.bidirectional ? keys : std::min(row + 1, keys);
    RowBackward(head, {head.batch, q_head, row, 1, 1}, state);
  }
}

// Leaves phi(q) in rows.phi and n = phi(q) S in rows.change; returns
// d = phi(q) sum + eps, or 1 where nothing is divided.
double LinearBackwardExecution::Answer(const Head& head, const RowSpan& span,
                                       const LinearState& state) const {
  const Rows& rows = head.rows;
  const int64_t width = shape_.v_dim;
  QueryRows(head.call, span.batch, span.head).Load(span.begin, 1, rows.kept);
  head.call.counters->nonfinite_q.fetch_add(
      CountNonFinite(rows.kept, shape_.q_dim), std::memory_order_relaxed);
  const double* q = pipeline_.PrepareAndKeep(head.view, Side::kQuery,
                                             {span, rows.kept, nullptr});
  double divisor = spec_.normalize ? spec_.eps : 1;
  std::fill_n(rows.change, width, 0.0);
  for (int64_t i = 0; i < shape_.k_dim; ++i) {
    rows.phi[i] = rule_.Feature(q[i]);
    if (spec_.normalize) divisor += rows.phi[i] * state.sum[i];
    for (int64_t c = 0; c < width; ++c) {
      rows.change[c] += rows.phi[i] * state.s[i * width + c];
    }
  }
  return divisor;
}

// out = gate f n with f = 1 / d or the scale: leaves dn = gate f dout in rows.v
// and returns dd = -gate dout . n f^2, 0 if nothing is divided.
double LinearBackwardExecution::FactorBackward(const Head& head,
                                               const RowBlock& block,
                                               double divisor) const {
  const Rows& rows = head.rows;
  const int64_t width = shape_.v_dim;
  std::fill_n(rows.v, width, 0.0);
  const TensorView& of_output = head.call.cotangents.output;
  if (of_output.data != nullptr) {
    OutputGradientRows(head.call, block.batch, block.head)
        .Load(block.row_begin, 1, rows.v);
  }
  const Score& score = pipeline_.score();
  const double scale = spec_.normalize ? 1 : score.scale(head.view, block.head);
  const double factor = divisor == 0 ? 0 : scale / divisor;
  double of_factor = Dot(rows.v, rows.change, width);
  const HeadGate& gate = pipeline_.head_gate();
  if (gate.on()) {
    double* of_gate =
        gate.GradientAt(head.view, block, block.row_begin, head.sink);
    if (of_gate != nullptr) *of_gate += factor * of_factor;
    const double value = gate.At(head.view, block, block.row_begin);
    of_factor *= value;
    ScaleRow(rows.v, width, value);
  }
  ScaleRow(rows.v, width, factor);
  if (spec_.normalize) return -of_factor * factor * factor;
  head.stages.scale +=
      score.ScaleBackward(head.view, block.head, of_factor, head.sink);
  return 0;
}

void LinearBackwardExecution::RowBackward(const Head& head,
                                          const RowBlock& block,
                                          const LinearState& state) const {
  const Rows& rows = head.rows;
  const int64_t width = shape_.v_dim;
  const RowSpan span{block.batch, block.head, block.row_begin, 1};
  const double divisor = Answer(head, span, state);
  const double of_divisor = FactorBackward(head, block, divisor);
  const LinearState gradient = states_.Gradient(head.states);
  for (int64_t i = 0; i < shape_.k_dim; ++i) {
    double* of_s = gradient.s + i * width;
    rows.of_phi[i] = Dot(rows.v, state.s + i * width, width);
    for (int64_t c = 0; c < width; ++c) of_s[c] += rows.phi[i] * rows.v[c];
    if (!spec_.normalize) continue;
    rows.of_phi[i] += of_divisor * state.sum[i];
    gradient.sum[i] += of_divisor * rows.phi[i];
  }
  FeatureRowBackward(head, Side::kQuery, span, head.call.gradients.q);
}

class LinearBackward final : public Kernel {
 public:
  const char* name() const override { return "linear_backward"; }
  std::string WhyNot(const Problem& problem) const override {
    return WhyNotLinear(problem);
  }
  std::unique_ptr<const Execution> Prepare(
      const Problem& problem) const override {
    return std::make_unique<LinearBackwardExecution>(problem);
  }
};

}  // namespace

const Kernel& LinearBackwardKernel() {
  static const LinearBackward kKernel;
  return kKernel;
}

}  // namespace attn
