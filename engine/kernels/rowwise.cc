#include "engine/kernels/rowwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "engine/kernels/block_writer.h"
#include "engine/kernels/copy_tile.h"
#include "engine/kernels/half_range.h"
#include "engine/kernels/head_rows.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/kernels/prepared_keys.h"
#include "engine/kernels/row_describer.h"
#include "engine/kernels/rowwise_scratch.h"
#include "engine/kernels/score_views.h"
#include "engine/tile/row_math.h"
#include "engine/tile/sparse_product.h"

namespace attn {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Rows of a block, which reads all keys and values once. Beyond 32768 keys a
// worker's memory, and the time until a job sees a cancellation, come first;
// beyond a million nothing else counts.
constexpr int64_t kMaxBlockRows = 64;
constexpr int64_t kMinBlockRows = 16;
constexpr int64_t kMaxScores = (int64_t{8} << 20) / sizeof(float);
constexpr int64_t kMostScores = 8 * kMaxScores;

// Keys of one product of weights and values: the accumulation over chunks is
// part of the result's bits, so that it is fixed.
constexpr int64_t kChunkKeys = 512;
static_assert(kChunkKeys % kPanelKeys == 0);

int64_t BlockRows(const AttentionShape& shape) {
  const int64_t keys = std::max<int64_t>(shape.kv_length, 1);
  return std::clamp(kMaxScores / keys / 8 * 8,
                    std::clamp<int64_t>(kMostScores / keys, 1, kMinBlockRows),
                    kMaxBlockRows);
}

// Whether a step over the tile may take so long that the next may be in vain.
bool IsLong(const Tile<float>& tile) {
  return tile.bounds.rows * tile.bounds.keys >= kMaxScores;
}

// Where the products' column units are counted from, for keys from `key` on.
int64_t PanelBegin(int64_t key) { return key / kPanelKeys * kPanelKeys; }

class RowwiseExecution final : public Execution {
 public:
  explicit RowwiseExecution(const Problem& problem)
      : shape_(problem.shape),
        pipeline_(problem),
        keys_(problem, pipeline_, kChunkKeys),
        describer_(problem),
        is_half_(problem.counts_f16_overflows),
        blocks_(shape_, BlockRows(shape_)),
        scratch_(problem, {pipeline_, keys_, describer_}, blocks_.block_rows(),
                 RoundUpToColumnUnit(shape_.kv_length)) {}

  int phase_count() const override { return 2; }
  int64_t job_count(int phase) const override {
    return phase == 0 ? keys_.chunks().count() : blocks_.count();
  }
  size_t worker_scratch_bytes() const override { return scratch_.bytes(); }
  size_t call_scratch_bytes() const override {
    return keys_.call_scratch_bytes();
  }
  void RunJob(const KernelCall& call, int phase, int64_t job,
              Arena& arena) const override;

 private:
  // What the steps of one job share.
  struct Job {
    const KernelCall& call;
    const CallView& view;
    const RowBlock& block;
    const RowwiseScratch& scratch;
    // Keys that some row may see, and all that the tile holds.
    KeyRange visible;
    KeyRange held;

    Tile<float> TileOf(KeyRange range) const;
    // Tiles of the visible keys in other memory.
    Tile<float> FinalLogits() const { return VisibleIn(scratch.final_logits); }
    Tile<float> View() const { return VisibleIn(scratch.view); }
    Tile<float> VisibleIn(float* data) const;
    KeyChunk Part(KeyRange range, int64_t group) const {
      return {block.batch, block.head / group, range.begin,
              range.end - range.begin};
    }
  };

  void Attend(const KernelCall& call, int64_t job, Arena& arena) const;
  void Weigh(const Job& job, const BlockWriter<float>& writer) const;
  ConstMatrix Queries(const Job& job) const;
  void MultiplyPanels(const Job& job, ConstMatrix q, KeyRange range) const;
  void FillScores(const Job& job, ConstMatrix q, KeyRange range) const;
  void NoteExcluded(const Job& job, const Tile<float>& tile) const;
  void Finish(const Job& job, const Tile<float>& tile) const;
  void Describe(const Job& job, const BlockWriter<float>& writer) const;
  void ViewGradient(const Job& job, const BlockWriter<float>& writer) const;
  void AddValues(const Job& job, const Tile<float>& weights) const;
  void AddNonFinite(const Job& job, const KeyChunk& part,
                    const Tile<float>& weights) const;

  AttentionShape shape_;
  Pipeline pipeline_;
  PreparedKeys keys_;
  RowDescriber describer_;
  bool is_half_;
  RowBlocks blocks_;
  RowwiseScratchPlan scratch_;
};

Tile<float> RowwiseExecution::Job::TileOf(KeyRange range) const {
  Tile<float> tile;
  tile.bounds = {.batch = block.batch,
                 .head = block.head,
                 .row_begin = block.row_begin,
                 .rows = block.valid_rows,
                 .key_begin = range.begin,
                 .keys = range.end - range.begin};
  tile.stride = RoundUpToColumnUnit(held.end - PanelBegin(held.begin));
  tile.data = scratch.scores + (range.begin - PanelBegin(held.begin));
  return tile;
}

Tile<float> RowwiseExecution::Job::VisibleIn(float* data) const {
  Tile<float> tile = TileOf(visible);
  tile.data = data;
  return tile;
}

void RowwiseExecution::RunJob(const KernelCall& call, int phase, int64_t job,
                              Arena& arena) const {
  if (phase == 0) {
    const CallView view{shape_, *call.args};
    if (!IsAskedFor(call, keys_.chunks().At(view, job))) return;
    keys_.Prepare(
        call, job,
        arena.Allocate<float>(static_cast<size_t>(keys_.chunk_elements())));
  } else {
    Attend(call, job, arena);
  }
}

void RowwiseExecution::Attend(const KernelCall& call, int64_t job_index,
                              Arena& arena) const {
  const CallView view{shape_, *call.args};
  const RowBlock block = blocks_.At(view, job_index);
  const BlockWriter<float> writer(call, block);
  std::fill_n(writer.statistics(), block.rows, RowStatistics{});
  if (!IsAskedFor(call, block)) return;
  const RowwiseScratch scratch = scratch_.Allocate(arena);

  Job job{call, view, block, scratch, {}, {}};
  if (block.valid_rows > 0) {
    job.visible = pipeline_.VisibleKeys(view, job.TileOf({}).bounds);
    if (job.visible.empty()) job.visible = {};
    job.held = call.outputs.logits.wanted()
                   ? KeyRange{0, view.kv_length(block.batch)}
                   : job.visible;
  }
  Weigh(job, writer);
  if (HasStopped(call)) return;
  writer.Lse();
  writer.DropoutKeep(view, pipeline_.dropout());
  const Tile<float> weights = job.TileOf(job.visible);
  if (call.outputs.output.wanted() || call.outputs.gradient_weight.wanted()) {
    pipeline_.dropout().Apply(view, weights);
    ViewGradient(job, writer);
  }
  if (call.outputs.output.wanted()) {
    AddValues(job, weights);
    pipeline_.head_gate().Apply(view, block, scratch.output);
    writer.Output(scratch.output);
  }
}

// Leaves the weights of the visible keys in the tile.
void RowwiseExecution::Weigh(const Job& job,
                             const BlockWriter<float>& writer) const {
  const ConstMatrix q = Queries(job);
  FillScores(job, q, job.visible);
  if (job.call.outputs.logits.wanted()) {
    // The product of the visible keys is always one of its own, so that its
    // bits do not depend on what else is asked for.
    FillScores(job, q, {job.held.begin, job.visible.begin});
    FillScores(job, q, {job.visible.end, job.held.end});
    writer.Logits(job.TileOf(job.held));
  }
  const Tile<float> tile = job.TileOf(job.visible);
  if (tile.bounds.keys > 0) Finish(job, tile);
  if (IsLong(tile) && Stops(job.call)) return;
  writer.MaskedLogits(tile);
  NoteExcluded(job, tile);
  if (describer_.needs_logits()) CopyTile(tile, job.FinalLogits());
  // Of rows without keys, too: a sink's lse is theirs.
  pipeline_.normalizer().Normalize(job.view, tile, writer.statistics());
  if (IsLong(tile) && Stops(job.call)) return;
  if (tile.bounds.keys > 0) {
    pipeline_.FinishWeights(job.view, tile, job.FinalLogits());
  }
  Describe(job, writer);
  writer.Weights(tile);
}

// From scaled scores to final logits.
void RowwiseExecution::Finish(const Job& job, const Tile<float>& tile) const {
  const Tile<float> raw = job.FinalLogits();
  const bool raw_exceeds = is_half_ && ExceedsHalf(tile);
  if (raw_exceeds) CopyTile(tile, raw);
  pipeline_.Finish(job.view, tile, job.scratch.row);
  if (raw_exceeds || (is_half_ && ExceedsHalf(tile))) {
    job.call.counters->f16_overflows.fetch_add(
        CountBeyondHalf(raw_exceeds ? raw : tile, tile),
        std::memory_order_relaxed);
  }
}

void RowwiseExecution::Describe(const Job& job,
                                const BlockWriter<float>& writer) const {
  const Tile<float> weights = job.TileOf(job.visible);
  const DescribedTile<float> tile{job.FinalLogits(), weights,
                                  job.scratch.norms};
  if (describer_.needs_norms() && weights.bounds.keys > 0) {
    const HeadRows values = ValueRows(job.call, job.block.batch,
                                      job.block.head / shape_.group_size());
    ValueNorms(values, job.visible.begin, weights.bounds.keys,
               job.scratch.chunk, job.scratch.norms);
  }
  describer_.Describe(tile, writer.statistics());
  if (job.call.outputs.contribution.wanted()) {
    ViewContribution(tile, job.View());
    writer.Contribution(job.View());
  }
}

// Of weights that dropout has been applied to.
void RowwiseExecution::ViewGradient(const Job& job,
                                    const BlockWriter<float>& writer) const {
  if (!job.call.outputs.gradient_weight.wanted()) return;
  const GradientViewCall call{job.view,
                              job.block,
                              job.call,
                              pipeline_.dropout(),
                              pipeline_.head_gate(),
                              job.scratch.cotangents};
  const DescribedTile<float> tile{job.FinalLogits(), job.TileOf(job.visible),
                                  nullptr};
  if (tile.weights.bounds.keys > 0) ViewGradientWeight(call, tile, job.View());
  writer.GradientWeight(job.View());
}

ConstMatrix RowwiseExecution::Queries(const Job& job) const {
  const HeadRows q = QueryRows(job.call, job.block.batch, job.block.head);
  float* rows = job.scratch.q;
  const int64_t count = job.block.valid_rows;
  q.Load(job.block.row_begin, count, rows);
  job.call.counters->nonfinite_q.fetch_add(
      CountNonFinite(rows, count * shape_.q_dim), std::memory_order_relaxed);
  const RowSpan span{job.block.batch, job.block.head, job.block.row_begin,
                     count};
  float* prepared = pipeline_.Prepare(job.view, Side::kQuery, span, rows,
                                      job.scratch.prepared_q);
  const int64_t width = pipeline_.prepared_width();
  // Once for the rows instead of once for each score.
  if (pipeline_.score().is_dot()) {
    const double scale = pipeline_.score().scale(job.view, job.block.head);
    ScaleRow(prepared, count * width, static_cast<float>(scale));
  }
  return {prepared, width};
}

void RowwiseExecution::FillScores(const Job& job, ConstMatrix q,
                                  KeyRange range) const {
  if (range.empty()) return;
  if (keys_.is_packed()) return MultiplyPanels(job, q, range);
  const KeyChunk part = job.Part(range, shape_.group_size());
  Tile<float> tile = job.TileOf(range);
  pipeline_.score().Compute(job.view, q.data, keys_.Keys(job.call, part).data,
                            tile);
}

// In whole column units: what is written beside the range is the score of a key
// beside it, or lies beyond the last key.
void RowwiseExecution::MultiplyPanels(const Job& job, ConstMatrix q,
                                      KeyRange range) const {
  const Tile<float> tile = job.TileOf(range);
  for (int64_t key = range.begin / kColumnUnit * kColumnUnit; key < range.end;
       key = PanelBegin(key) + kPanelKeys) {
    const int64_t end = std::min(range.end, PanelBegin(key) + kPanelKeys);
    const KeyChunk part = job.Part({key, end}, shape_.group_size());
    MultiplyTile({.rows = job.block.valid_rows,
                  .columns = part.keys,
                  .inner = keys_.key_width(),
                  .a = q.data,
                  .a_stride = q.stride,
                  .b = keys_.Panel(job.call, part) + key % kPanelKeys,
                  .b_stride = kPanelKeys,
                  .c = tile.data + (key - range.begin),
                  .c_stride = tile.stride});
  }
}

// Keeps which rows do not see a key whose value is infinite or NaN: bit r for
// row r. After normalising a weight of 0 does not tell.
void RowwiseExecution::NoteExcluded(const Job& job,
                                    const Tile<float>& tile) const {
  static_assert(kMaxBlockRows <= 64);
  ForEachChunkIn(job.visible, kChunkKeys, [&](KeyRange range) {
    const KeyChunk part = job.Part(range, shape_.group_size());
    if (keys_.ChunkIsClean(job.call, part)) return;
    for (int64_t key = range.begin; key < range.end; ++key) {
      if (keys_.KeyIsClean(job.call, part, key)) continue;
      uint64_t rows = 0;
      for (int64_t r = 0; r < tile.bounds.rows; ++r) {
        const bool excluded =
            tile.Row(r)[key - tile.bounds.key_begin] == kMinusInfinity;
        rows |= uint64_t{excluded} << r;
      }
      job.scratch.excluded[key] = rows;
    }
  });
}

void RowwiseExecution::AddValues(const Job& job,
                                 const Tile<float>& weights) const {
  const int64_t rows = job.block.valid_rows;
  const int64_t width = keys_.value_width();
  float* output = job.scratch.output;
  std::fill_n(output, rows * width, 0.0F);
  ForEachChunkIn(job.visible, kChunkKeys, [&](KeyRange range) {
    const KeyChunk part = job.Part(range, shape_.group_size());
    const ConstMatrix v = keys_.Values(job.call, part, job.scratch.chunk);
    AddProduct({.rows = rows,
                .columns = width,
                .inner = part.keys,
                .a = weights.data + (range.begin - weights.bounds.key_begin),
                .a_stride = weights.stride,
                .b = v.data,
                .b_stride = v.stride,
                .c = output,
                .c_stride = width});
    if (!keys_.ChunkIsClean(job.call, part)) AddNonFinite(job, part, weights);
  });
  for (int64_t r = 1; r < rows && width != shape_.v_dim; ++r) {
    std::copy_n(output + r * width, shape_.v_dim, output + r * shape_.v_dim);
  }
}

// The terms that Values() left out, for the rows that see them.
void RowwiseExecution::AddNonFinite(const Job& job, const KeyChunk& part,
                                    const Tile<float>& weights) const {
  const HeadRows v = ValueRows(job.call, part.batch, part.kv_head);
  float* value = job.scratch.chunk;
  for (int64_t key = part.key_begin; key < part.key_begin + part.keys; ++key) {
    if (keys_.KeyIsClean(job.call, part, key)) continue;
    v.Load(key, 1, value);
    for (int64_t r = 0; r < job.block.valid_rows; ++r) {
      if ((job.scratch.excluded[key] >> r & 1) != 0) continue;
      const float weight = weights.Row(r)[key - weights.bounds.key_begin];
      float* row = job.scratch.output + r * keys_.value_width();
      for (int64_t c = 0; c < shape_.v_dim; ++c) {
        if (!std::isfinite(value[c])) row[c] += weight * value[c];
      }
    }
  }
}

class Rowwise final : public Kernel {
 public:
  const char* name() const override { return "rowwise"; }
  std::string WhyNot(const Problem& problem) const override {
    if (problem.dtype == DType::kF64 || problem.output_dtype == DType::kF64) {
      return "accumulates in F32; F64 tensors need double";
    }
    const Pipeline pipeline(problem);
    if (pipeline.normalizer().kind() == NormalizerKind::kRecurrent) {
      return "the normalizer has no rows of scores";
    }
    return "";
  }
  std::unique_ptr<const Execution> Prepare(
      const Problem& problem) const override {
    return std::make_unique<RowwiseExecution>(problem);
  }
};

}  // namespace

const Kernel& RowwiseKernel() {
  static const Rowwise kKernel;
  return kKernel;
}

}  // namespace attn
