#include "engine/kernels/reference.h"

#include <algorithm>
#include <limits>

#include "engine/kernels/block_writer.h"
#include "engine/kernels/half_range.h"
#include "engine/kernels/head_rows.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/kernels/row_describer.h"
#include "engine/kernels/score_views.h"

namespace attn {
namespace {

// Speed is no aim: blocks are small so that a late call can be cancelled soon
// though every product is a plain loop.
constexpr int64_t kBlockRows = 8;
constexpr int64_t kChunkKeys = 64;

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

// Every key within the length is scored, visible or not: a hull of a mask that
// is too narrow shows as a difference to the other kernels.
class ReferenceExecution final : public Execution {
 public:
  explicit ReferenceExecution(const Problem& problem)
      : shape_(problem.shape),
        pipeline_(problem),
        describer_(problem),
        is_half_(problem.counts_f16_overflows),
        blocks_(shape_, kBlockRows),
        chunks_(shape_, kChunkKeys) {}

  int phase_count() const override { return 2; }
  int64_t job_count(int phase) const override {
    return phase == 0 ? chunks_.count() : blocks_.count();
  }
  size_t worker_scratch_bytes() const override;
  size_t call_scratch_bytes() const override { return 0; }
  void RunJob(const KernelCall& call, int phase, int64_t job,
              Arena& arena) const override;

 private:
  // The double-precision rows of one job.
  struct Rows {
    double* q = nullptr;
    double* prepared_q = nullptr;
    double* prepared_k = nullptr;
    double* row = nullptr;     // for sparsifiers
    double* chunk = nullptr;   // of K, then of V
    double* logits = nullptr;  // [rows, Sk]
    double* final_logits = nullptr;
    double* output = nullptr;
    double* norms = nullptr;  // of the values, for statistics
    double* view = nullptr;   // of the weights
    double* cotangents = nullptr;
  };

  void CountKeys(const KernelCall& call, int64_t job, Arena& arena) const;
  void Attend(const KernelCall& call, int64_t job, Arena& arena) const;
  Rows Allocate(Arena& arena) const;
  void Finish(const KernelCall& call, const CallView& view,
              const Tile<double>& tile, const Rows& rows) const;
  void Describe(const BlockWriter<double>& writer, const KernelCall& call,
                const RowBlock& block, const DescribedTile<double>& tile,
                const Rows& rows) const;
  void Score(const KernelCall& call, const RowBlock& block, const Rows& rows,
             const Tile<double>& tile) const;
  void AddValues(const KernelCall& call, const RowBlock& block,
                 const Rows& rows, const Tile<double>& weights) const;

  size_t width() const {
    return static_cast<size_t>(std::max(shape_.k_dim, shape_.v_dim));
  }

  AttentionShape shape_;
  Pipeline pipeline_;
  RowDescriber describer_;
  bool is_half_;
  RowBlocks blocks_;
  KeyChunks chunks_;
};

size_t ReferenceExecution::worker_scratch_bytes() const {
  const auto padded = [](int64_t rows, int64_t columns) {
    return Arena::Padded(static_cast<size_t>(rows * columns) * sizeof(double));
  };
  return padded(kBlockRows, shape_.q_dim) +
         padded(kBlockRows, pipeline_.prepared_width()) +
         padded(kChunkKeys, pipeline_.prepared_width()) +
         padded(1, shape_.kv_length) +
         padded(kChunkKeys, static_cast<int64_t>(width())) +
         3 * padded(kBlockRows, shape_.kv_length) +
         padded(kBlockRows, shape_.v_dim) +
         padded(kBlockRows + 1, shape_.v_dim) + padded(1, shape_.kv_length);
}

ReferenceExecution::Rows ReferenceExecution::Allocate(Arena& arena) const {
  const auto take = [&arena](int64_t rows, int64_t columns) {
    return arena.Allocate<double>(static_cast<size_t>(rows * columns));
  };
  return {.q = take(kBlockRows, shape_.q_dim),
          .prepared_q = take(kBlockRows, pipeline_.prepared_width()),
          .prepared_k = take(kChunkKeys, pipeline_.prepared_width()),
          .row = take(1, shape_.kv_length),
          .chunk = take(kChunkKeys, static_cast<int64_t>(width())),
          .logits = take(kBlockRows, shape_.kv_length),
          .final_logits = take(kBlockRows, shape_.kv_length),
          .output = take(kBlockRows, shape_.v_dim),
          .norms = take(1, shape_.kv_length),
          .view = take(kBlockRows, shape_.kv_length),
          .cotangents = take(kBlockRows + 1, shape_.v_dim)};
}

void ReferenceExecution::RunJob(const KernelCall& call, int phase, int64_t job,
                                Arena& arena) const {
  if (phase == 0) {
    CountKeys(call, job, arena);
  } else {
    Attend(call, job, arena);
  }
}

void ReferenceExecution::CountKeys(const KernelCall& call, int64_t job,
                                   Arena& arena) const {
  const KeyChunk chunk = chunks_.At({shape_, *call.args}, job);
  const HeadRows k = KeyRows(call, chunk.batch, chunk.kv_head);
  const HeadRows v = ValueRows(call, chunk.batch, chunk.kv_head);
  double* scratch = arena.Allocate<double>(width());
  call.counters->nonfinite_k.fetch_add(
      CountNonFiniteRows(k, chunk.key_begin, chunk.keys, scratch),
      std::memory_order_relaxed);
  call.counters->nonfinite_v.fetch_add(
      CountNonFiniteRows(v, chunk.key_begin, chunk.keys, scratch),
      std::memory_order_relaxed);
}

void ReferenceExecution::Attend(const KernelCall& call, int64_t job,
                                Arena& arena) const {
  const CallView view{shape_, *call.args};
  const RowBlock block = blocks_.At(view, job);
  const BlockWriter<double> writer(call, block);
  std::fill_n(writer.statistics(), block.rows, RowStatistics{});
  if (!IsAskedFor(call, block)) return;
  const Rows rows = Allocate(arena);

  Tile<double> tile;
  tile.bounds = {.batch = block.batch,
                 .head = block.head,
                 .row_begin = block.row_begin,
                 .rows = block.valid_rows,
                 .key_begin = 0,
                 .keys = view.kv_length(block.batch)};
  tile.data = rows.logits;
  tile.stride = shape_.kv_length;
  Score(call, block, rows, tile);
  call.counters->nonfinite_q.fetch_add(
      CountNonFiniteRows(QueryRows(call, block.batch, block.head),
                         block.row_begin, block.valid_rows, rows.chunk),
      std::memory_order_relaxed);
  writer.Logits(tile);
  Tile<double> final_logits = tile;
  final_logits.data = rows.final_logits;
  Finish(call, view, tile, rows);
  writer.MaskedLogits(tile);
  pipeline_.normalizer().Normalize(view, tile, writer.statistics());
  pipeline_.FinishWeights(view, tile, final_logits);
  Describe(writer, call, block, {final_logits, tile, rows.norms}, rows);
  writer.Weights(tile);
  writer.Lse();
  writer.DropoutKeep(view, pipeline_.dropout());
  pipeline_.dropout().Apply(view, tile);
  if (call.outputs.gradient_weight.wanted()) {
    Tile<double> gradient = tile;
    gradient.data = rows.view;
    ViewGradientWeight<double>({view, block, call, pipeline_.dropout(),
                                pipeline_.head_gate(), rows.cotangents},
                               {final_logits, tile, nullptr}, gradient);
    writer.GradientWeight(gradient);
  }
  if (!call.outputs.output.wanted()) return;
  AddValues(call, block, rows, tile);
  pipeline_.head_gate().Apply(view, block, rows.output);
  writer.Output(rows.output);
}

// From scaled scores to final logits, of which a copy stays.
void ReferenceExecution::Finish(const KernelCall& call, const CallView& view,
                                const Tile<double>& tile,
                                const Rows& rows) const {
  const int64_t elements = tile.bounds.rows * tile.stride;
  Tile<double> copy = tile;
  copy.data = rows.final_logits;
  std::copy_n(tile.data, elements, copy.data);
  pipeline_.Finish(view, tile, rows.row);
  if (is_half_) {
    call.counters->f16_overflows.fetch_add(CountBeyondHalf(copy, tile),
                                           std::memory_order_relaxed);
  }
  std::copy_n(tile.data, elements, copy.data);
}

void ReferenceExecution::Describe(const BlockWriter<double>& writer,
                                  const KernelCall& call, const RowBlock& block,
                                  const DescribedTile<double>& tile,
                                  const Rows& rows) const {
  const TileBounds& bounds = tile.weights.bounds;
  if (describer_.needs_norms()) {
    const HeadRows values =
        ValueRows(call, block.batch, block.head / shape_.group_size());
    ValueNorms(values, 0, bounds.keys, rows.chunk, rows.norms);
  }
  describer_.Describe(tile, writer.statistics());
  if (call.outputs.contribution.wanted()) {
    Tile<double> view = tile.weights;
    view.data = rows.view;
    ViewContribution(tile, view);
    writer.Contribution(view);
  }
}

void ReferenceExecution::Score(const KernelCall& call, const RowBlock& block,
                               const Rows& rows,
                               const Tile<double>& tile) const {
  const CallView view{shape_, *call.args};
  const HeadRows q = QueryRows(call, block.batch, block.head);
  const HeadRows k =
      KeyRows(call, block.batch, block.head / shape_.group_size());
  q.Load(block.row_begin, block.valid_rows, rows.q);
  const double* queries = pipeline_.Prepare(
      view, Side::kQuery,
      {block.batch, block.head, block.row_begin, block.valid_rows}, rows.q,
      rows.prepared_q);
  Tile<double> part = tile;
  for (int64_t key = 0; key < tile.bounds.keys; key += kChunkKeys) {
    part.bounds.key_begin = key;
    part.bounds.keys = std::min(kChunkKeys, tile.bounds.keys - key);
    part.data = tile.data + key;
    k.Load(key, part.bounds.keys, rows.chunk);
    const double* keys = pipeline_.Prepare(
        view, Side::kKey,
        {block.batch, block.head / shape_.group_size(), key, part.bounds.keys},
        rows.chunk, rows.prepared_k);
    pipeline_.score().Compute(view, queries, keys, part);
  }
}

void ReferenceExecution::AddValues(const KernelCall& call,
                                   const RowBlock& block, const Rows& rows,
                                   const Tile<double>& weights) const {
  const HeadRows v =
      ValueRows(call, block.batch, block.head / shape_.group_size());
  const int64_t width = shape_.v_dim;
  std::fill_n(rows.output, block.valid_rows * width, 0.0);
  for (int64_t key = 0; key < weights.bounds.keys; ++key) {
    v.Load(key, 1, rows.chunk);
    for (int64_t r = 0; r < block.valid_rows; ++r) {
      // Not 0 * v: v may be NaN.
      if (rows.final_logits[r * weights.stride + key] == kExcluded) continue;
      const double weight = weights.Row(r)[key];
      for (int64_t c = 0; c < width; ++c) {
        rows.output[r * width + c] += weight * rows.chunk[c];
      }
    }
  }
}

class Reference final : public Kernel {
 public:
  const char* name() const override { return "reference"; }
  std::string WhyNot(const Problem& problem) const override {
    return Pipeline(problem).normalizer().kind() == NormalizerKind::kRecurrent
               ? "the normalizer has no rows of scores"
               : "";
  }
  std::unique_ptr<const Execution> Prepare(
      const Problem& problem) const override {
    return std::make_unique<ReferenceExecution>(problem);
  }
};

}  // namespace

const Kernel& ReferenceKernel() {
  static const Reference kKernel;
  return kKernel;
}

}  // namespace attn
