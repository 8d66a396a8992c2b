#include "engine/kernels/backward_queries.h"

#include <algorithm>
#include <limits>

#include "engine/kernels/gradient_rows.h"
#include "engine/kernels/head_rows.h"
#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

// Speed is no aim: a block is small enough that a late call can be cancelled
// soon though every product is a plain loop.
constexpr int64_t kMaxBlockRows = 16;
constexpr int64_t kBlockScores = 4096;
constexpr int64_t kChunkKeys = 64;

int64_t BlockRows(const AttentionShape& shape) {
  return std::clamp<int64_t>(
      kBlockScores / std::max<int64_t>(shape.kv_length, 1), 1, kMaxBlockRows);
}

}  // namespace

BackwardQueries::BackwardQueries(const Problem& problem,
                                 const Pipeline& pipeline)
    : shape_(problem.shape),
      pipeline_(pipeline),
      width_(pipeline.prepared_width()),
      blocks_(problem.shape, BlockRows(problem.shape)),
      blocks_per_head_((shape_.q_length + blocks_.block_rows() - 1) /
                       blocks_.block_rows()) {}

int64_t BackwardQueries::blocks_per_plane() const {
  return shape_.group_size() * blocks_per_head_;
}

RowBlock BackwardQueries::BlockAt(const CallView& view, int64_t plane,
                                  int64_t block) const {
  const int64_t head = plane * shape_.group_size() + block / blocks_per_head_;
  return blocks_.At(view, head * blocks_per_head_ + block % blocks_per_head_);
}

// Tiles of scores: those of TileRecord that the problem has, and the gradient.
int64_t BackwardQueries::tile_count() const {
  return 4 + (pipeline_.score_program() != nullptr ? 1 : 0) +
         (pipeline_.weight_program() != nullptr ? 1 : 0) +
         (pipeline_.dropout().on() ? 1 : 0);
}

std::array<JobArray, 11> BackwardQueries::ArraysOf(Memory& memory) const {
  const int64_t rows = blocks_.block_rows();
  return {{{&memory.kept,
            pipeline_.kept_stages(Side::kQuery) * rows * shape_.q_dim},
           {&memory.prepared, rows * width_},
           {&memory.compared_gradient, rows * width_},
           {&memory.row_gradient, rows * shape_.q_dim},
           {&memory.direct_gradient,
            pipeline_.normalizer().reads_queries() ? rows * shape_.q_dim : 0},
           {&memory.output_gradient, rows * shape_.v_dim},
           {&memory.lse_gradient, rows},
           {&memory.gates, rows},
           {&memory.values, kChunkKeys * shape_.v_dim},
           {&memory.row, shape_.kv_length},
           {&memory.tiles, tile_count() * rows * shape_.kv_length}}};
}

size_t BackwardQueries::worker_scratch_bytes() const {
  Memory memory;
  return JobBytes(ArraysOf(memory));
}

TileRecord BackwardQueries::MakeRecord(const TileBounds& bounds,
                                       double* tiles) const {
  const auto next = [&] {
    const Tile<double> tile{bounds, tiles, shape_.kv_length};
    tiles += blocks_.block_rows() * shape_.kv_length;
    return tile;
  };
  TileRecord record;
  record.scores = next();
  record.logits = next();
  record.weights = next();
  record.biased = pipeline_.score_program() != nullptr
                      ? next()
                      : Tile<double>{bounds, nullptr, 0};
  record.changed =
      pipeline_.weight_program() != nullptr ? next() : record.weights;
  record.mixed = pipeline_.dropout().on() ? next() : record.changed;
  return record;
}

Tile<double> BackwardQueries::GradientTile(const TileRecord& record,
                                           double* tiles) const {
  return {record.scores.bounds,
          tiles + (tile_count() - 1) * blocks_.block_rows() * shape_.kv_length,
          shape_.kv_length};
}

void BackwardQueries::Run(const KernelCall& call, const RowBlock& block,
                          const KeyPlane& keys, const SharedGradients& shared,
                          Arena& arena) const {
  const CallView view{shape_, *call.args};
  Memory memory;
  TakeJobMemory(ArraysOf(memory), arena);
  RowStatistics* statistics =
      call.row_statistics +
      (block.batch * shape_.q_heads + block.head) * shape_.q_length +
      block.row_begin;
  std::fill_n(statistics, block.rows, RowStatistics{});
  const RowsRecord rows{
      {block.batch, block.head, block.row_begin, block.valid_rows},
      memory.kept,
      memory.prepared};
  QueryRows(call, block.batch, block.head)
      .Load(block.row_begin, block.valid_rows, memory.kept);
  call.counters->nonfinite_q.fetch_add(
      CountNonFinite(memory.kept, block.valid_rows * shape_.q_dim),
      std::memory_order_relaxed);
  const double* queries = pipeline_.PrepareAndKeep(view, Side::kQuery, rows);

  TileBounds bounds{.batch = block.batch,
                    .head = block.head,
                    .row_begin = block.row_begin,
                    .rows = block.valid_rows};
  const KeyRange visible = pipeline_.VisibleKeys(view, bounds);
  bounds.key_begin = visible.begin;
  bounds.keys = std::max<int64_t>(visible.end - visible.begin, 0);
  TileRecord record = MakeRecord(bounds, memory.tiles);
  record.statistics = statistics;
  pipeline_.score().Compute(
      view, queries, keys.prepared + bounds.key_begin * width_, record.scores);
  pipeline_.FinishAndKeep(view, record, statistics, memory.row);

  const Tile<double> gradient = GradientTile(record, memory.tiles);
  LoadCotangents(call, block, memory);
  MixBackward(call, record, gradient, keys, memory);
  GateBackward(view, block, record, gradient, shared.sink);
  if (pipeline_.normalizer().reads_queries()) {
    std::fill_n(memory.direct_gradient, block.valid_rows * shape_.q_dim, 0.0);
  }
  pipeline_.FinishBackward(
      view, record, {gradient, memory.lse_gradient, memory.direct_gradient},
      shared.sink, &shared.stages);
  std::fill_n(memory.compared_gradient, block.valid_rows * width_, 0.0);
  shared.stages.scale += pipeline_.score().Backward(
      view,
      {queries, keys.prepared + bounds.key_begin * width_,
       memory.compared_gradient, keys.gradient + bounds.key_begin * width_},
      gradient, shared.sink);
  StoreRows(call, block, rows, memory, shared.sink);
}

void BackwardQueries::LoadCotangents(const KernelCall& call,
                                     const RowBlock& block,
                                     const Memory& memory) const {
  const CallView view{shape_, *call.args};
  const TensorView& output = call.cotangents.output;
  const TensorView& lse = call.cotangents.lse;
  if (output.data != nullptr) {
    OutputGradientRows(call, block.batch, block.head)
        .Load(block.row_begin, block.valid_rows, memory.output_gradient);
  } else {
    std::fill_n(memory.output_gradient, block.valid_rows * shape_.v_dim, 0.0);
  }
  std::fill_n(memory.lse_gradient, block.valid_rows, 0.0);
  if (lse.data != nullptr) {
    const int64_t offset = block.batch * lse.strides[0] +
                           block.head * lse.strides[1] +
                           block.row_begin * lse.strides[2];
    LoadElements(lse.data + offset * static_cast<int64_t>(SizeOf(lse.dtype)),
                 lse.dtype, lse.strides[2], block.valid_rows,
                 memory.lse_gradient);
  }
  const HeadGate& gate = pipeline_.head_gate();
  for (int64_t r = 0; r < block.valid_rows; ++r) {
    memory.gates[r] = gate.on() ? gate.At(view, block, block.row_begin + r) : 1;
  }
}

// out = gate * mixed V: the gradient of mixed, but for the gate, and dV.
void BackwardQueries::MixBackward(const KernelCall& call,
                                  const TileRecord& record,
                                  const Tile<double>& gradient,
                                  const KeyPlane& keys,
                                  const Memory& memory) const {
  const TileBounds& b = gradient.bounds;
  const HeadRows v = ValueRows(call, b.batch, b.head / shape_.group_size());
  const int64_t width = shape_.v_dim;
  for (int64_t first = 0; first < b.keys; first += kChunkKeys) {
    const int64_t last = std::min(first + kChunkKeys, b.keys);
    v.Load(b.key_begin + first, last - first, memory.values);
    for (int64_t r = 0; r < b.rows; ++r) {
      const double* of_output = memory.output_gradient + r * width;
      for (int64_t j = first; j < last; ++j) {
        gradient.Row(r)[j] = 0;
        // Neither side is read where they do not see each other.
        if (record.logits.Row(r)[j] == kExcluded) continue;
        const int64_t key = b.key_begin + j;
        keys.seen[key] = 1;
        gradient.Row(r)[j] =
            Dot(of_output, memory.values + (j - first) * width, width);
        const double weight = record.mixed.Row(r)[j] * memory.gates[r];
        double* of_value = keys.value_gradient + key * width;
        for (int64_t c = 0; c < width; ++c) {
          of_value[c] += weight * of_output[c];
        }
      }
    }
  }
}

void BackwardQueries::GateBackward(const CallView& view, const RowBlock& block,
                                   const TileRecord& record,
                                   const Tile<double>& gradient,
                                   const GradientSink& sink) const {
  const HeadGate& gate = pipeline_.head_gate();
  if (!gate.on()) return;
  for (int64_t r = 0; r < block.valid_rows; ++r) {
    const int64_t row = block.row_begin + r;
    const double factor = gate.At(view, block, row);
    double* g = gradient.Row(r);
    double product = 0;
    for (int64_t j = 0; j < gradient.bounds.keys; ++j) {
      if (record.logits.Row(r)[j] == kExcluded) continue;
      product += record.mixed.Row(r)[j] * g[j];
      g[j] *= factor;
    }
    double* of_gate = gate.GradientAt(view, block, row, sink);
    if (of_gate != nullptr) *of_gate += product;
  }
}

// To row_gradient, which begins at row r.
void BackwardQueries::AddDirect(const Memory& memory, int64_t r,
                                int64_t count) const {
  if (!pipeline_.normalizer().reads_queries()) return;
  const double* direct = memory.direct_gradient + r * shape_.q_dim;
  for (int64_t i = 0; i < count * shape_.q_dim; ++i) {
    memory.row_gradient[i] += direct[i];
  }
}

// Rows that see no key have gradient 0 and are not read again: there may be NaN
// in them.
void BackwardQueries::StoreRows(const KernelCall& call, const RowBlock& block,
                                const RowsRecord& rows, const Memory& memory,
                                const GradientSink& sink) const {
  const CallView view{shape_, *call.args};
  StoreHeadRows(call, call.gradients.q,
                {block.batch, block.head, block.row_begin, block.rows},
                nullptr);
  const RowStatistics* statistics =
      call.row_statistics +
      (block.batch * shape_.q_heads + block.head) * shape_.q_length +
      block.row_begin;
  const HeadRows q = QueryRows(call, block.batch, block.head);
  int64_t r = 0;
  while (r < block.valid_rows) {
    const auto sees = [&](int64_t i) { return statistics[i].visible_keys > 0; };
    int64_t end = r + 1;
    while (end < block.valid_rows && sees(end) == sees(r)) ++end;
    if (sees(r)) {
      // A run of its own: the planes of `kept` are as long as it is.
      RowsRecord run = rows;
      run.span = {block.batch, block.head, block.row_begin + r, end - r};
      q.Load(run.span.begin, run.span.count, run.kept);
      pipeline_.PrepareAndKeep(view, Side::kQuery, run);
      pipeline_.PrepareBackward(
          view, Side::kQuery, run,
          {memory.compared_gradient + r * width_, memory.row_gradient}, sink);
      AddDirect(memory, r, end - r);
      StoreHeadRows(call, call.gradients.q, run.span, memory.row_gradient);
    }
    r = end;
  }
}

}  // namespace attn
