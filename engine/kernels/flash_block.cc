#include "engine/kernels/flash_block.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/block_writer.h"
#include "engine/kernels/copy_tile.h"
#include "engine/kernels/half_range.h"
#include "engine/kernels/head_rows.h"
#include "engine/kernels/job_memory.h"
#include "engine/kernels/online_state.h"
#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"
#include "engine/tile/tile_products.h"

namespace attn {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
static_assert(kFlashRows <= 64);
// Rows of a product by oneDNN are a multiple of this.
constexpr int64_t kRowStep = 16;
static_assert(kFlashRows % kRowStep == 0);
static_assert(kFlashChunkKeys % kFlashKeys == 0);
static_assert(kFlashKeys % kPanelKeys == 0);
// Tiles between two looks at the cancellation: some milliseconds at most.
constexpr int64_t kTilesAtOnce = 16;

KeyRange Both(const KeyRange& a, const KeyRange& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// visit(part, elements) for each part of the memory.
template <typename Visit>
void ForEachPart(const FlashStages& stages, FlashScratch& scratch,
                 Visit visit) {
  const bool prepares = stages.pipeline.prepares(Side::kQuery);
  visit(scratch.queries, kFlashRows * stages.shape.q_dim);
  visit(scratch.prepared, prepares ? kFlashRows * stages.keys.width() : 0);
  visit(scratch.narrow, stages.keys.format() == KeyFormat::kBf16Rows
                            ? kFlashRows * stages.keys.width()
                            : 0);
  visit(scratch.scores, kFlashRows * kFlashKeys);
  visit(scratch.raw, stages.counts_half ? kFlashRows * kFlashKeys : 0);
  visit(scratch.output, kFlashRows * stages.values.width());
  visit(scratch.values, kFlashKeys * stages.values.width());
  visit(scratch.value, stages.shape.v_dim);
  visit(scratch.states, kFlashRows);
  visit(scratch.factors, kFlashRows);
  visit(scratch.excluded, kFlashKeys);
}

}  // namespace

size_t FlashScratch::Bytes(const FlashStages& stages) {
  FlashScratch scratch;
  return PartBytes([&](auto visit) { ForEachPart(stages, scratch, visit); });
}

FlashScratch FlashScratch::Take(const FlashStages& stages, Arena& arena) {
  FlashScratch scratch;
  TakeParts([&](auto visit) { ForEachPart(stages, scratch, visit); }, arena);
  return scratch;
}

FlashBlock::FlashBlock(const FlashStages& stages, const KernelCall& call,
                       const RowBlock& block, const FlashPlanes& planes,
                       const FlashScratch& scratch)
    : stages_(stages),
      call_(call),
      view_{stages.shape, *call.args},
      block_(block),
      planes_(planes),
      scratch_(scratch),
      wants_output_(call.outputs.output.wanted()) {}

void FlashBlock::Run() {
  FindBands();
  const int64_t rows = block_.valid_rows;
  std::fill_n(scratch_.states, rows, OnlineRow{});
  if (wants_output_) {
    std::fill_n(scratch_.output, rows * stages_.values.width(), 0.0F);
  }
  LoadQueries();
  if (!visible_.empty()) {
    const int64_t first = visible_.begin / kFlashKeys * kFlashKeys;
    int64_t walked = 0;
    for (int64_t tile = first; tile < visible_.end; tile += kFlashKeys) {
      if (++walked % kTilesAtOnce == 0 && Stops(call_)) return;
      Walk(tile);
    }
  }
  Complete();
}

void FlashBlock::FindBands() {
  visible_ = {};
  band_count_ = 0;
  const Pipeline& pipeline = stages_.pipeline;
  const int64_t step = pipeline.has_masks() ? kBandRows : kFlashRows;
  TileBounds bounds{.batch = block_.batch, .head = block_.head};
  for (int64_t row = 0; row < block_.valid_rows; row += step) {
    bounds.row_begin = block_.row_begin + row;
    bounds.rows = std::min(step, block_.valid_rows - row);
    const KeyRange keys = pipeline.VisibleKeys(view_, bounds);
    if (keys.empty()) continue;
    visible_ = visible_.empty() ? keys
                                : KeyRange{std::min(visible_.begin, keys.begin),
                                           std::max(visible_.end, keys.end)};
    Band* last = band_count_ == 0 ? nullptr : &bands_[Index(band_count_ - 1)];
    if (last != nullptr && last->row + last->rows == row &&
        last->keys.begin == keys.begin && last->keys.end == keys.end) {
      last->rows += bounds.rows;
    } else {
      bands_[Index(band_count_++)] = {row, bounds.rows, keys};
    }
  }
}

template <typename Visit>
void FlashBlock::ForEachBandIn(KeyRange keys, Visit visit) const {
  Band open;
  for (int64_t b = 0; b < band_count_; ++b) {
    Band next = bands_[Index(b)];
    next.keys = Both(next.keys, keys);
    if (next.keys.empty()) continue;
    if (open.row + open.rows == next.row &&
        open.keys.begin == next.keys.begin && open.keys.end == next.keys.end) {
      open.rows += next.rows;
      continue;
    }
    if (open.rows > 0) visit(open);
    open = next;
  }
  if (open.rows > 0) visit(open);
}

void FlashBlock::LoadQueries() {
  const HeadRows q = QueryRows(call_, block_.batch, block_.head);
  const int64_t rows = block_.valid_rows;
  q.Load(block_.row_begin, rows, scratch_.queries);
  const int64_t found =
      CountNonFinite(scratch_.queries, rows * stages_.shape.q_dim);
  if (found > 0) {
    call_.counters->nonfinite_q.fetch_add(found, std::memory_order_relaxed);
  }
  const Pipeline& pipeline = stages_.pipeline;
  float* prepared = scratch_.queries;
  if (pipeline.prepares(Side::kQuery)) {
    const RowSpan span{block_.batch, block_.head, block_.row_begin, rows};
    prepared = pipeline.Prepare(view_, Side::kQuery, span, scratch_.queries,
                                scratch_.prepared);
  }
  if (stages_.keys.format() == KeyFormat::kBf16Rows) {
    const int64_t width = stages_.keys.width();
    // The scale comes after the product. But of a scale of 0 the product may
    // not be infinite: 0 times that is NaN.
    if (pipeline.score().scale(view_, block_.head) == 0) {
      ScaleRow(prepared, rows * width, 0);
    }
    FloatToBF16(prepared, scratch_.narrow, rows * width);  // came so: exact
    std::fill_n(scratch_.narrow + rows * width, (kFlashRows - rows) * width,
                uint16_t{0});
    return;
  }
  // Once for the rows instead of once for each score.
  ScaleRow(prepared, rows * stages_.keys.width(),
           static_cast<float>(pipeline.score().scale(view_, block_.head)));
  queries_ = prepared;
}

Tile<float> FlashBlock::TileOf(const Band& band, int64_t tile) const {
  const KeyRange& keys = band.keys;
  Tile<float> scores;
  scores.bounds = {.batch = block_.batch,
                   .head = block_.head,
                   .row_begin = block_.row_begin + band.row,
                   .rows = band.rows,
                   .key_begin = keys.begin,
                   .keys = keys.end - keys.begin};
  scores.stride = kFlashKeys;
  scores.data = scratch_.scores + band.row * kFlashKeys + (keys.begin - tile);
  return scores;
}

KeyChunk FlashBlock::Part(KeyRange range) const {
  return {block_.batch, block_.head / stages_.shape.group_size(), range.begin,
          range.end - range.begin};
}

void FlashBlock::Walk(int64_t tile) {
  if (stages_.keys.format() == KeyFormat::kBf16Rows) {
    ScoreOfBf16(tile);
  } else {
    Score(tile);
  }
  const KeyRange held = Both(visible_, {tile, tile + kFlashKeys});
  is_dirty_ =
      wants_output_ && !stages_.values.ChunkIsClean(planes_.values, tile);
  ConstMatrix values;
  if (wants_output_) {
    values = stages_.values.Values(call_, Part(held), planes_.values,
                                   scratch_.values);
  }
  ForEachBandIn(held, [&](const Band& band) {
    const Tile<float> scores = TileOf(band, tile);
    Absorb(band.row, scores);
    if (!wants_output_) return;
    const int64_t skipped = band.keys.begin - held.begin;
    AddValues(band.row, scores,
              {values.data + skipped * values.stride, values.stride});
  });
}

// The panel stays in the first cache while the bands go by.
void FlashBlock::Score(int64_t tile) {
  const int64_t width = stages_.keys.width();
  const int64_t end = std::min(tile + kFlashKeys, visible_.end);
  for (int64_t panel = tile; panel < end; panel += kPanelKeys) {
    const float* packed = stages_.keys.Panel(planes_.keys, panel);
    ForEachBandIn({panel, panel + kPanelKeys}, [&](const Band& band) {
      const int64_t first =
          (band.keys.begin - panel) / kColumnUnit * kColumnUnit;
      MultiplyTile({.rows = band.rows,
                    .columns = band.keys.end - panel - first,
                    .inner = width,
                    .a = queries_ + band.row * width,
                    .a_stride = width,
                    .b = packed + first,
                    .b_stride = kPanelKeys,
                    .c = scratch_.scores + band.row * kFlashKeys +
                         (panel - tile) + first,
                    .c_stride = kFlashKeys});
      stages_.pipeline.Prefetch(view_, TileOf(band, tile).bounds);
    });
  }
}

// In whole panels and steps of rows: there is generated code for each extent.
void FlashBlock::ScoreOfBf16(int64_t tile) {
  const int64_t width = stages_.keys.width();
  const KeyRange held = Both(visible_, {tile, tile + kFlashKeys});
  const int64_t begin = held.begin / kPanelKeys * kPanelKeys;
  const int64_t panels = (held.end - begin + kPanelKeys - 1) / kPanelKeys;
  const ProductSize size = {
      .rows = (block_.valid_rows + kRowStep - 1) / kRowStep * kRowStep,
      .columns = panels * kPanelKeys,
      .inner = width};
  MultiplyTransposed(
      size, {scratch_.narrow, width},
      ConstBf16Matrix{stages_.keys.Bf16Rows(planes_.keys, begin), width},
      {scratch_.scores + (begin - tile), kFlashKeys});
  const auto scale =
      static_cast<float>(stages_.pipeline.score().scale(view_, block_.head));
  ForEachBandIn(held, [&](const Band& band) {
    const Tile<float> scores = TileOf(band, tile);
    for (int64_t r = 0; r < band.rows; ++r) {
      ScaleRow(scores.Row(r), scores.bounds.keys, scale);
    }
    stages_.pipeline.Prefetch(view_, scores.bounds);
  });
}

void FlashBlock::Absorb(int64_t row, const Tile<float>& scores) {
  FinishScores(scores);
  if (is_dirty_) NoteExcluded(row, scores);
  const TileBounds& bounds = scores.bounds;
  AbsorbTile(
      {.data = scores.data,
       .stride = scores.stride,
       .rows = bounds.rows,
       .count = bounds.keys,
       .first_key = bounds.key_begin,
       .norms = planes_.norms == nullptr ? nullptr
                                         : planes_.norms + bounds.key_begin},
      scratch_.states + row, scratch_.factors + row);
  stages_.pipeline.dropout().Apply(view_, scores);
}

// From scaled scores to final logits.
void FlashBlock::FinishScores(const Tile<float>& scores) {
  const Pipeline& pipeline = stages_.pipeline;
  if (!stages_.counts_half) {
    if (pipeline.finishes()) pipeline.Finish(view_, scores, nullptr);
    return;
  }
  Tile<float> raw = scores;
  raw.data = scratch_.raw;
  const bool raw_exceeds = ExceedsHalf(scores);
  if (raw_exceeds) CopyTile(scores, raw);
  if (pipeline.finishes()) pipeline.Finish(view_, scores, nullptr);
  if (!raw_exceeds && !(pipeline.finishes() && ExceedsHalf(scores))) return;
  call_.counters->f16_overflows.fetch_add(
      CountBeyondHalf(raw_exceeds ? raw : scores, scores),
      std::memory_order_relaxed);
}

void FlashBlock::NoteExcluded(int64_t row, const Tile<float>& scores) {
  for (int64_t j = 0; j < scores.bounds.keys; ++j) {
    const int64_t key = scores.bounds.key_begin + j;
    if (stages_.values.KeyIsClean(planes_.values, key)) continue;
    uint64_t rows = 0;
    for (int64_t r = 0; r < scores.bounds.rows; ++r) {
      rows |= uint64_t{scores.Row(r)[j] == kMinusInfinity} << (row + r);
    }
    scratch_.excluded[key % kFlashKeys] = rows;
  }
}

void FlashBlock::AddValues(int64_t row, const Tile<float>& weights,
                           ConstMatrix values) {
  const int64_t width = stages_.values.width();
  ScaleAndMultiplyTile({.rows = weights.bounds.rows,
                        .columns = width,
                        .inner = weights.bounds.keys,
                        .a = weights.data,
                        .a_stride = weights.stride,
                        .b = values.data,
                        .b_stride = values.stride,
                        .c = scratch_.output + row * width,
                        .c_stride = width},
                       scratch_.factors + row);
  if (is_dirty_) AddNonFinite(row, weights);
}

// The terms that Values() left out, for the rows that see them.
void FlashBlock::AddNonFinite(int64_t first, const Tile<float>& weights) {
  const int64_t v_dim = stages_.shape.v_dim;
  const HeadRows v = ValueRows(call_, block_.batch, Part({}).kv_head);
  float* value = scratch_.value;
  for (int64_t j = 0; j < weights.bounds.keys; ++j) {
    const int64_t key = weights.bounds.key_begin + j;
    if (stages_.values.KeyIsClean(planes_.values, key)) continue;
    v.Load(key, 1, value);
    const uint64_t excluded = scratch_.excluded[key % kFlashKeys];
    for (int64_t r = 0; r < weights.bounds.rows; ++r) {
      if ((excluded >> (first + r) & 1) != 0) continue;
      float* row = scratch_.output + (first + r) * stages_.values.width();
      for (int64_t c = 0; c < v_dim; ++c) {
        if (!std::isfinite(value[c])) row[c] += weights.Row(r)[j] * value[c];
      }
    }
  }
}

void FlashBlock::Complete() {
  const BlockWriter<float> writer(call_, block_);
  double storage[kMaxSinks];
  const absl::Span<const double> sinks =
      stages_.pipeline.normalizer().Sinks(view_, block_.head, storage);
  RowStatistics* statistics = writer.statistics();
  const int64_t width = stages_.values.width();
  const int64_t v_dim = stages_.shape.v_dim;
  for (int64_t r = 0; r < block_.rows; ++r) {
    if (r >= block_.valid_rows) {
      statistics[r] = RowStatistics{};
      continue;
    }
    const auto factor = static_cast<float>(
        DescribeState(scratch_.states[r], sinks, statistics + r));
    if (!wants_output_) continue;
    float* row = scratch_.output + r * width;
    ScaleRow(row, v_dim, factor);
    if (width != v_dim) std::copy_n(row, v_dim, scratch_.output + r * v_dim);
  }
  writer.Lse();
  if (!wants_output_) return;
  stages_.pipeline.head_gate().Apply(view_, block_, scratch_.output);
  writer.Output(scratch_.output);
}

}  // namespace attn
