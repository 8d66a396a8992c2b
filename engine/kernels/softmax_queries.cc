#include "engine/kernels/softmax_queries.h"

#include <algorithm>
#include <cmath>

#include "engine/kernels/copy_tile.h"
#include "engine/kernels/gradient_rows.h"
#include "engine/kernels/head_rows.h"
#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"
#include "engine/tile/softmax_gradient.h"

namespace attn {
namespace {

// K, V and their gradients come out of the third-level cache once for each
// block, so that more rows are better. But beside masks a block of as many rows
// as a panel has keys leaves the least to compute in vain, and that counts more
// where keys are few. Fewer where a block would take more than about 5 ms on
// one core of 2023 (10^11 operations a second), so that a late call is
// cancelled soon, but not so few that loads outweigh products.
constexpr int64_t kMaxBlockRows = 96;
constexpr int64_t kMaxMaskedRows = kPanelKeys;
constexpr int64_t kFewKeys = 1024;
constexpr int64_t kMinBlockRows = 24;
constexpr int64_t kBlockFlops = 500'000'000;

// Keys that go through several steps while their scores are near; also those
// over which a product for dQ sums before its result goes to memory.
constexpr int64_t kPartKeys = 8 * kPanelKeys;

int64_t BlockRows(const Problem& problem, int64_t width) {
  const AttentionShape& shape = problem.shape;
  const int64_t row_flops = 2 * std::max<int64_t>(shape.kv_length, 1) *
                            std::max<int64_t>(3 * width + 2 * shape.v_dim, 1);
  const bool masked = !problem.spec.masks.empty() && shape.kv_length < kFewKeys;
  return std::clamp(kBlockFlops / row_flops / 6 * 6, kMinBlockRows,
                    masked ? kMaxMaskedRows : kMaxBlockRows);
}

}  // namespace

SoftmaxQueries::SoftmaxQueries(const Problem& problem, const Pipeline& pipeline)
    : shape_(problem.shape),
      pipeline_(pipeline),
      rows_(problem, pipeline),
      prepares_(pipeline.prepares(Side::kQuery)),
      has_temperatures_(!problem.spec.temperatures.empty()),
      wants_biases_(!problem.spec.biases.empty() &&
                    !problem.gradients.inputs.empty()),
      width_(pipeline.prepared_width()),
      padded_width_(RoundUpToColumnUnit(width_)),
      padded_v_dim_(RoundUpToColumnUnit(shape_.v_dim)),
      blocks_(problem.shape, BlockRows(problem, width_)),
      blocks_per_head_((shape_.q_length + blocks_.block_rows() - 1) /
                       blocks_.block_rows()) {}

int64_t SoftmaxQueries::blocks_per_plane() const {
  return shape_.group_size() * blocks_per_head_;
}

RowBlock SoftmaxQueries::BlockAt(const CallView& view, int64_t plane,
                                 int64_t block) const {
  const int64_t head = plane * shape_.group_size() + block / blocks_per_head_;
  return blocks_.At(view, head * blocks_per_head_ + block % blocks_per_head_);
}

// Whole panels, and an odd number of cache lines: the elements of a column lie
// in different sets of a cache.
int64_t SoftmaxQueries::stride() const {
  return (shape_.kv_length + kPanelKeys - 1) / kPanelKeys * kPanelKeys + 16;
}

std::array<FloatJobArray, 11> SoftmaxQueries::FloatsOf(Memory& memory) const {
  const int64_t rows = blocks_.block_rows();
  const int64_t tile = rows * stride();
  return {{{&memory.q, rows * width_},
           {&memory.scaled_q, rows * padded_width_},
           {&memory.d_output, rows * shape_.v_dim},
           {&memory.d_value, rows * padded_v_dim_},
           {&memory.q_gradient, rows * padded_width_},
           {&memory.row, shape_.kv_length},
           {&memory.weights, tile},
           {&memory.gradient, tile},
           {&memory.scores, pipeline_.softcap() > 0 ? tile : 0},
           {&memory.logits, has_temperatures_ ? tile : 0},
           {&memory.mixed, pipeline_.dropout().on() ? tile : 0}}};
}

std::array<JobArray, 8> SoftmaxQueries::DoublesOf(Memory& memory) const {
  const int64_t rows = blocks_.block_rows();
  const int64_t prepared = prepares_ ? rows : 0;
  return {{{&memory.wide, wants_biases_ ? shape_.kv_length : 0},
           {&memory.kept,
            pipeline_.kept_stages(Side::kQuery) * prepared * shape_.q_dim},
           {&memory.prepared, prepared * width_},
           {&memory.compared, prepared * width_},
           {&memory.row_gradient, prepared * shape_.q_dim},
           {&memory.products, rows},
           {&memory.gates, rows},
           {&memory.lse, rows}}};
}

size_t SoftmaxQueries::worker_scratch_bytes() const {
  Memory memory;
  const auto rows = static_cast<size_t>(blocks_.block_rows());
  return JobBytes(FloatsOf(memory)) + JobBytes(DoublesOf(memory)) +
         Arena::Padded(rows * sizeof(SoftmaxRow));
}

SoftmaxQueries::Memory SoftmaxQueries::Allocate(Arena& arena) const {
  Memory memory;
  TakeJobMemory(FloatsOf(memory), arena);
  TakeJobMemory(DoublesOf(memory), arena);
  memory.rows =
      arena.Allocate<SoftmaxRow>(static_cast<size_t>(blocks_.block_rows()));
  return memory;
}

Tile<float> SoftmaxQueries::Job::TileOf(float* data, KeyRange part) const {
  return {{.batch = block.batch,
           .head = block.head,
           .row_begin = block.row_begin,
           .rows = block.valid_rows,
           .key_begin = part.begin,
           .keys = part.end - part.begin},
          data + (part.begin - first_key),
          stride};
}

template <typename Visit>
void SoftmaxQueries::ForEachPart(const Job& job, const Visit& visit) const {
  for (int64_t key = job.first_key; key < job.visible.end; key += kPartKeys) {
    visit(KeyRange{std::max(key, job.visible.begin),
                   std::min(key + kPartKeys, job.visible.end)});
  }
}

void SoftmaxQueries::Run(const KernelCall& call, const RowBlock& block,
                         const SoftmaxKeyPlane& keys,
                         const SharedGradients& shared, Arena& arena) const {
  const CallView view{shape_, *call.args};
  const Memory memory = Allocate(arena);
  Job job{call, view, block, keys, memory, {}, 0, stride()};
  job.statistics =
      call.row_statistics +
      (block.batch * shape_.q_heads + block.head) * shape_.q_length +
      block.row_begin;
  std::fill_n(job.statistics, block.rows, RowStatistics{});
  job.scale = pipeline_.score().scale(view, block.head);
  job.visible = pipeline_.VisibleKeys(view, job.TileOf(nullptr, {}).bounds);
  if (job.visible.empty()) job.visible = {};
  job.first_key = job.visible.begin / kPanelKeys * kPanelKeys;

  job.q = LoadQueries(job);
  ScaleQueries(job);
  job.d_output = LoadCotangents(job);
  FillScores(job);
  const Tile<float> tile = job.TileOf(memory.weights);
  rows_.Scan(view, tile, memory.rows, job.statistics);
  ForEachPart(job, [&](KeyRange part) { Weigh(job, part); });
  rows_.Complete(view, tile, memory.rows, job.statistics);
  job.has_gaps = RowsBackward(job, shared);
  ForEachPart(job, [&](KeyRange part) {
    LogitsBackward(job, part, shared);
    AddKeyGradients(job, part);
    AddQueryGradients(job, part);
  });
  ScaleQueryGradients(job, shared);
  StoreQueries(job, shared.sink);
}

ConstMatrix SoftmaxQueries::LoadQueries(const Job& job) const {
  const HeadRows q = QueryRows(job.call, job.block.batch, job.block.head);
  const Memory& memory = job.memory;
  const int64_t rows = job.rows();
  ConstMatrix result{memory.q, width_};
  int64_t nonfinite = 0;
  if (prepares_) {
    const RowSpan span{job.block.batch, job.block.head, job.block.row_begin,
                       rows};
    q.Load(span.begin, rows, memory.kept);
    nonfinite = CountNonFinite(memory.kept, rows * shape_.q_dim);
    const double* prepared = pipeline_.PrepareAndKeep(
        job.view, Side::kQuery, {span, memory.kept, memory.prepared});
    std::transform(prepared, prepared + rows * width_, memory.q,
                   [](double x) { return static_cast<float>(x); });
  } else {
    result = q.Matrix(job.block.row_begin, rows, memory.q);
    for (int64_t r = 0; r < rows; ++r) {
      nonfinite += CountNonFinite(result.data + r * result.stride, width_);
    }
  }
  job.call.counters->nonfinite_q.fetch_add(nonfinite,
                                           std::memory_order_relaxed);
  return result;
}

// What the keys' gradients take.
void SoftmaxQueries::ScaleQueries(const Job& job) const {
  for (int64_t r = 0; r < job.rows(); ++r) {
    const float* row = job.q.data + r * job.q.stride;
    float* scaled = job.memory.scaled_q + r * padded_width_;
    for (int64_t i = 0; i < width_; ++i) {
      scaled[i] =
          OrZero(static_cast<float>(job.scale * static_cast<double>(row[i])));
    }
    std::fill(scaled + width_, scaled + padded_width_, 0.0F);
  }
}

ConstMatrix SoftmaxQueries::LoadCotangents(const Job& job) const {
  const Memory& memory = job.memory;
  const RowBlock& block = job.block;
  const TensorView& output = job.call.cotangents.output;
  const TensorView& lse = job.call.cotangents.lse;
  const int64_t rows = job.rows();
  std::fill_n(memory.lse, rows, 0.0);
  if (lse.data != nullptr) {
    const int64_t offset = block.batch * lse.strides[0] +
                           block.head * lse.strides[1] +
                           block.row_begin * lse.strides[2];
    LoadElements(lse.data + offset * static_cast<int64_t>(SizeOf(lse.dtype)),
                 lse.dtype, lse.strides[2], rows, memory.lse);
  }
  const HeadGate& gate = pipeline_.head_gate();
  for (int64_t r = 0; r < rows; ++r) {
    memory.gates[r] =
        gate.on() ? gate.At(job.view, block, block.row_begin + r) : 1;
    memory.products[r] = 0;
  }
  if (output.data != nullptr) {
    return OutputGradientRows(job.call, block.batch, block.head)
        .Matrix(block.row_begin, rows, memory.d_output);
  }
  std::fill_n(memory.d_output, rows * shape_.v_dim, 0.0F);
  return {memory.d_output, shape_.v_dim};
}

// The tile's part becomes factor * left * panels, whole panels at a time.
void SoftmaxQueries::FillTile(const Job& job, KeyRange keys,
                              const LeftOperand& left, const Panels& panels,
                              const ProductTarget& tile) const {
  for (int64_t key = keys.begin / kPanelKeys * kPanelKeys; key < keys.end;
       key += kPanelKeys) {
    ProductTarget panel = tile;
    panel.data += key - job.first_key;
    MultiplyStrided({job.rows(), kPanelKeys, panels.width}, left,
                    {panels.data + key * panels.width, kPanelKeys}, panel);
  }
}

// Final logits of whole rows, in the tile of weights.
void SoftmaxQueries::FillScores(const Job& job) const {
  const Memory& memory = job.memory;
  FillTile(job, job.visible, {job.q.data, job.q.stride, 1},
           {job.keys.key_panels, width_},
           {memory.weights, job.stride, static_cast<float>(job.scale), false});
  const Tile<float> tile = job.TileOf(memory.weights);
  if (tile.bounds.keys == 0) return;
  if (pipeline_.softcap() > 0) CopyTile(tile, job.TileOf(memory.scores));
  pipeline_.Finish(job.view, tile, memory.row);
  if (has_temperatures_) CopyTile(tile, job.TileOf(memory.logits));
}

// From logits to E and dP, and their products' sums.
void SoftmaxQueries::Weigh(const Job& job, KeyRange keys) const {
  const Memory& memory = job.memory;
  const Tile<float> weights = job.TileOf(memory.weights, keys);
  const Tile<float> gradient = job.TileOf(memory.gradient, keys);
  rows_.Exponentiate(weights, memory.rows);
  FillTile(job, keys, {job.d_output.data, job.d_output.stride, 1},
           {job.keys.value_panels, shape_.v_dim},
           {memory.gradient, job.stride, 1, false});
  if (pipeline_.dropout().on()) {
    const Tile<float> mixed = job.TileOf(memory.mixed, keys);
    CopyTile(weights, mixed);
    pipeline_.dropout().Apply(job.view, mixed);
    pipeline_.dropout().Apply(job.view, gradient);
  }
  for (int64_t r = 0; r < job.rows(); ++r) {
    memory.products[r] +=
        WeightedSum(weights.Row(r), gradient.Row(r), gradient.bounds.keys);
  }
}

// Rows that see no key have gradient 0 and are not read again: there may be NaN
// in them.
void SoftmaxQueries::StoreQueries(const Job& job,
                                  const GradientSink& sink) const {
  const RowBlock& block = job.block;
  const MutableTensorView& tensor = job.call.gradients.q;
  const RowSpan span{block.batch, block.head, block.row_begin, job.rows()};
  ClearHeadRows(job.call, tensor,
                {block.batch, block.head, block.row_begin + span.count,
                 block.rows - span.count});
  if (!prepares_) {
    return StoreHeadRows(job.call, tensor, span, job.memory.q_gradient,
                         padded_width_);
  }
  ClearHeadRows(job.call, tensor, span);
  const auto sees = [&](int64_t r) {
    return job.statistics[r].visible_keys > 0;
  };
  for (int64_t r = 0; r < span.count;) {
    int64_t end = r + 1;
    while (end < span.count && sees(end) == sees(r)) ++end;
    if (sees(r)) StoreRun(job, r, end - r, sink);
    r = end;
  }
}

void SoftmaxQueries::StoreRun(const Job& job, int64_t r, int64_t count,
                              const GradientSink& sink) const {
  const Memory& memory = job.memory;
  const RowSpan span{job.block.batch, job.block.head, job.block.row_begin + r,
                     count};
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(memory.q_gradient + (r + i) * padded_width_, width_,
                memory.compared + i * width_);
  }
  QueryRows(job.call, span.batch, span.head)
      .Load(span.begin, count, memory.kept);
  const RowsRecord record{span, memory.kept, memory.prepared};
  pipeline_.PrepareAndKeep(job.view, Side::kQuery, record);
  pipeline_.PrepareBackward(job.view, Side::kQuery, record,
                            {memory.compared, memory.row_gradient}, sink);
  StoreHeadRows(job.call, job.call.gradients.q, span, memory.row_gradient);
}

}  // namespace attn
