#include "engine/kernels/linear.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "engine/kernels/block_writer.h"
#include "engine/kernels/head_rows.h"
#include "engine/kernels/linear_rule.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/kernels/step_phases.h"
#include "engine/tile/convert.h"
#include "engine/tile/feature_rows.h"
#include "engine/tile/linear_walk.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Multiplications of a job, about: a late call is cancelled between two jobs.
constexpr int64_t kJobProducts = int64_t{1} << 20;
constexpr int64_t kMaxJobRows = 4096;
// Rows of the sequence that are loaded at a time.
constexpr int64_t kRowsAtOnce = 32;

// Rows of the sequence that a job walks along.
int64_t JobRows(const AttentionShape& shape) {
  const int64_t of_row = std::max<int64_t>(shape.k_dim * shape.v_dim, 1) *
                         (1 + shape.group_size());
  return std::clamp<int64_t>(kJobProducts / of_row, 1, kMaxJobRows);
}

// The walk of a KV head along its sequence: one job after the other, each in a
// phase of its own. The state lies in the call's scratch between them.
class LinearExecution final : public Execution {
 public:
  explicit LinearExecution(const Problem& problem)
      : shape_(problem.shape),
        spec_(std::get<LinearNormalizer>(problem.spec.normalizer)),
        rule_(spec_, shape_),
        pipeline_(problem),
        rows_((spec_.bidirectional ? shape_.kv_length : 0) + shape_.q_length),
        job_rows_(JobRows(shape_)),
        // One at least, for the state of an empty sequence.
        steps_(std::max<int64_t>((rows_ + job_rows_ - 1) / job_rows_, 1)),
        phases_(1, steps_) {}

  int phase_count() const override { return phases_.count(); }
  int64_t job_count(int /*phase*/) const override {
    return shape_.batch * shape_.kv_heads;
  }
  size_t worker_scratch_bytes() const override {
    size_t bytes = 0;
    Memory memory;
    ForEachPart(memory, [&bytes](double*& /*part*/, int64_t count) {
      bytes += Arena::Padded(static_cast<size_t>(count) * sizeof(double));
    });
    return bytes;
  }
  size_t call_scratch_bytes() const override {
    return static_cast<size_t>(job_count(0) * StateElements()) * sizeof(double);
  }
  void RunJob(const KernelCall& call, int phase, int64_t job,
              Arena& arena) const override;

 private:
  // Of one job: some rows of q, k and v, and what becomes of them.
  struct Memory {
    double* q = nullptr;
    double* k = nullptr;
    double* v = nullptr;
    double* decay = nullptr;
    double* beta = nullptr;
    double* output = nullptr;
    double* divisors = nullptr;
    double* walk = nullptr;
  };
  // One KV head on its way along the sequence.
  struct Head {
    const KernelCall& call;
    const CallView& view;
    int64_t batch = 0;
    int64_t kv_head = 0;
    LinearState state;
    Memory memory;
  };
  // Rows of the sequence.
  struct Rows {
    int64_t begin = 0;
    int64_t count = 0;
  };

  template <typename Visit>
  void ForEachPart(Memory& memory, Visit visit) const;
  // Of S and the sum of one KV head.
  int64_t StateElements() const { return shape_.k_dim * (shape_.v_dim + 1); }
  LinearState StateOf(const KernelCall& call, int64_t plane) const;
  void Step(const Head& head, int64_t step) const;
  void Walk(const Head& head, const Rows& keys, const Rows& queries) const;
  void StoreState(const Head& head) const;
  int64_t LoadKeys(const Head& head, const Rows& rows) const;
  int64_t LoadQueries(const Head& head, const Rows& rows) const;
  void Answer(const Head& head, const Rows& rows, int64_t valid) const;
  void Finish(const Head& head, const RowBlock& block, double* output,
              const double* divisors) const;

  AttentionShape shape_;
  LinearNormalizer spec_;
  LinearRule rule_;
  Pipeline pipeline_;
  // Of the walk: keys and then queries, or both side by side.
  int64_t rows_;
  int64_t job_rows_;
  int64_t steps_;
  StepPhases phases_;
};

// visit(part, elements) for each part of the memory.
template <typename Visit>
void LinearExecution::ForEachPart(Memory& memory, Visit visit) const {
  const int64_t rows = std::min(kRowsAtOnce, rows_);
  const int64_t answers = rows * shape_.group_size();
  visit(memory.q, answers * shape_.q_dim);
  visit(memory.k, rows * shape_.k_dim);
  visit(memory.v, rows * shape_.v_dim);
  visit(memory.decay, spec_.decay ? rows * shape_.k_dim : 0);
  visit(memory.beta, spec_.beta ? rows : 0);
  visit(memory.output, answers * shape_.v_dim);
  visit(memory.divisors, spec_.normalize ? answers : 0);
  visit(memory.walk, LinearWalkScratch(shape_.k_dim));
}

LinearState LinearExecution::StateOf(const KernelCall& call,
                                     int64_t plane) const {
  double* s = reinterpret_cast<double*>(call.scratch) + plane * StateElements();
  return {s, s + shape_.k_dim * shape_.v_dim};
}

void LinearExecution::RunJob(const KernelCall& call, int phase, int64_t job,
                             Arena& arena) const {
  const CallView view{shape_, *call.args};
  Head head{call,
            view,
            job / shape_.kv_heads,
            job % shape_.kv_heads,
            StateOf(call, job),
            {}};
  ForEachPart(head.memory, [&arena](double*& part, int64_t count) {
    part = arena.Allocate<double>(static_cast<size_t>(count));
  });
  phases_.ForEach(phase, [&](int64_t /*round*/, int64_t step) {
    if (step == 0) rule_.LoadState(view, job, head.state);
    Step(head, step);
    if (step == steps_ - 1) StoreState(head);
  });
}

void LinearExecution::Step(const Head& head, int64_t step) const {
  const int64_t end = std::min((step + 1) * job_rows_, rows_);
  // The first row that has queries: before it, all keys are taken.
  const int64_t first = spec_.bidirectional ? shape_.kv_length : 0;
  for (int64_t row = step * job_rows_; row < end;) {
    int64_t last = std::min(row + kRowsAtOnce, end);
    if (row < first) last = std::min(last, first);
    const Rows rows{row, last - row};
    Walk(head, row >= first && spec_.bidirectional ? Rows{} : rows,
         row < first ? Rows{} : Rows{row - first, rows.count});
    row = last;
  }
}

void LinearExecution::Walk(const Head& head, const Rows& keys,
                           const Rows& queries) const {
  const int64_t taken = LoadKeys(head, keys);
  const int64_t asked = LoadQueries(head, queries);
  const Memory& memory = head.memory;
  WalkLinear({.k_dim = shape_.k_dim,
              .v_dim = shape_.v_dim,
              .state = head.state.s,
              .sum = spec_.normalize ? head.state.sum : nullptr,
              .keys = taken,
              .k = memory.k,
              .v = memory.v,
              .decay = spec_.decay ? memory.decay : nullptr,
              .beta = spec_.beta ? memory.beta : nullptr,
              .heads = shape_.group_size(),
              .queries = asked,
              .q = memory.q,
              .output = memory.output,
              .divisors = memory.divisors,
              .scratch = memory.walk});
  if (queries.count > 0) Answer(head, queries, asked);
}

void LinearExecution::StoreState(const Head& head) const {
  const MutableTensorView& state = head.call.outputs.state;
  if (!state.wanted()) return;
  const int64_t count = shape_.k_dim * shape_.v_dim;
  const int64_t plane = head.batch * shape_.kv_heads + head.kv_head;
  StoreElements(
      head.state.s, count, state.dtype,
      state.data + plane * count * static_cast<int64_t>(SizeOf(state.dtype)));
}

// Those within the length; returns how many.
int64_t LinearExecution::LoadKeys(const Head& head, const Rows& rows) const {
  const int64_t length = head.view.kv_length(head.batch);
  const int64_t count = std::clamp<int64_t>(length - rows.begin, 0, rows.count);
  if (count == 0) return 0;
  const Memory& memory = head.memory;
  const RowSpan span{head.batch, head.kv_head, rows.begin, count};
  KeyRows(head.call, head.batch, head.kv_head)
      .Load(rows.begin, count, memory.k);
  ValueRows(head.call, head.batch, head.kv_head)
      .Load(rows.begin, count, memory.v);
  CallCounters& counters = *head.call.counters;
  counters.nonfinite_k.fetch_add(CountNonFinite(memory.k, count * shape_.k_dim),
                                 std::memory_order_relaxed);
  counters.nonfinite_v.fetch_add(CountNonFinite(memory.v, count * shape_.v_dim),
                                 std::memory_order_relaxed);
  pipeline_.Prepare(head.view, Side::kKey, span, memory.k, memory.k);
  FeatureRow(spec_.feature_map, memory.k, count * shape_.k_dim);
  rule_.LoadGates(head.view, span, memory.decay, memory.beta);
  return count;
}

// Of all heads of the group: those within the length; returns how many of each.
int64_t LinearExecution::LoadQueries(const Head& head, const Rows& rows) const {
  const int64_t length = head.view.q_length(head.batch);
  const int64_t count = std::clamp<int64_t>(length - rows.begin, 0, rows.count);
  if (count == 0) return 0;
  const int64_t group = shape_.group_size();
  const int64_t elements = count * shape_.q_dim;
  for (int64_t g = 0; g < group; ++g) {
    const int64_t q_head = head.kv_head * group + g;
    double* q = head.memory.q + g * elements;
    const RowSpan span{head.batch, q_head, rows.begin, count};
    QueryRows(head.call, head.batch, q_head).Load(rows.begin, count, q);
    head.call.counters->nonfinite_q.fetch_add(CountNonFinite(q, elements),
                                              std::memory_order_relaxed);
    pipeline_.Prepare(head.view, Side::kQuery, span, q, q);
    FeatureRow(spec_.feature_map, q, elements);
  }
  return count;
}

void LinearExecution::Answer(const Head& head, const Rows& rows,
                             int64_t valid) const {
  const int64_t group = shape_.group_size();
  for (int64_t g = 0; g < group; ++g) {
    Finish(
        head,
        {head.batch, head.kv_head * group + g, rows.begin, rows.count, valid},
        head.memory.output + g * valid * shape_.v_dim,
        head.memory.divisors + g * valid);
  }
}

// out = scale * phi(q) S, or phi(q) S over phi(q) . sum + eps if normalised.
void LinearExecution::Finish(const Head& head, const RowBlock& block,
                             double* output, const double* divisors) const {
  const BlockWriter<double> writer(head.call, block);
  const double scale = pipeline_.score().scale(head.view, block.head);
  const int64_t keys = head.view.kv_length(head.batch);
  for (int64_t r = 0; r < block.rows; ++r) {
    RowStatistics& statistics = writer.statistics()[r];
    statistics = RowStatistics{};
    if (r >= block.valid_rows) continue;
    double factor = scale;
    if (spec_.normalize) {
      const double divisor = spec_.eps + divisors[r];
      // No key was seen: nothing to divide.
      factor = divisor == 0 ? 0 : 1 / divisor;
    }
    ScaleRow(output + r * shape_.v_dim, shape_.v_dim, factor);
    statistics.visible_keys =
        spec_.bidirectional ? keys : std::min(block.row_begin + r + 1, keys);
  }
  writer.Lse();
  pipeline_.head_gate().Apply(head.view, block, output);
  writer.Output(output);
}

class Linear final : public Kernel {
 public:
  const char* name() const override { return "linear"; }
  std::string WhyNot(const Problem& problem) const override {
    return WhyNotLinear(problem);
  }
  std::unique_ptr<const Execution> Prepare(
      const Problem& problem) const override {
    return std::make_unique<LinearExecution>(problem);
  }
};

}  // namespace

const Kernel& LinearKernel() {
  static const Linear kKernel;
  return kKernel;
}

}  // namespace attn
