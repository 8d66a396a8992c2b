#include "engine/kernels/decode_chunk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/copy_tile.h"
#include "engine/kernels/half_range.h"
#include "engine/kernels/job_memory.h"
#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// Keys that a softmax takes in at once: sums run in float so far.
constexpr int64_t kStepKeys = 512;
// Keys that are copied at once, where they cannot be read in place.
constexpr int64_t kCopiedKeys = 64;

static_assert(kStepKeys % kStreamRows == 0);

int64_t QueryWidth(const DecodeStages& stages) {
  return WholeFloats(stages.pipeline.prepared_width());
}

// visit(part, elements) for each part of the memory.
template <typename Visit>
void ForEachPart(const DecodeStages& stages, DecodeScratch& scratch,
                 Visit visit) {
  const AttentionShape& s = stages.shape;
  const int64_t width = stages.pipeline.prepared_width();
  visit(scratch.loaded, s.q_length * s.q_dim);
  visit(scratch.prepared, s.q_length * width);
  visit(scratch.queries, stages.rows() * QueryWidth(stages));
  visit(scratch.pairs,
        stages.has_pairs ? stages.rows() * WholePairs(width) : 0);
  visit(scratch.scores, stages.rows() * stages.score_stride());
  visit(scratch.raw,
        stages.counts_half ? stages.rows() * stages.score_stride() : 0);
  visit(scratch.factors, stages.rows());
  visit(scratch.copied, kCopiedKeys * std::max(s.k_dim, s.v_dim));
  visit(scratch.prepared_keys,
        stages.pipeline.prepares(Side::kKey) ? kCopiedKeys * width : 0);
  visit(scratch.copied_pairs, stages.has_pairs ? kCopiedKeys * width : 0);
  visit(scratch.scales, stages.chunk_keys);
  visit(scratch.dirty, stages.chunk_keys);
  visit(scratch.excluded, stages.chunk_keys);
}

// Calls visit(begin, count) for parts of [0, count) of at most `step` keys.
template <typename Visit>
void ForEachStep(int64_t count, int64_t step, Visit visit) {
  for (int64_t begin = 0; begin < count; begin += step) {
    visit(begin, std::min(step, count - begin));
  }
}

void MultiplyRow(float* row, const float* by, int64_t count) {
  for (int64_t j = 0; j < count; ++j) row[j] *= by[j];
}

void ZeroNonFinite(float* row, int64_t count) {
  std::replace_if(
      row, row + count, [](float x) { return !std::isfinite(x); }, 0.0F);
}

}  // namespace

size_t DecodeScratch::Bytes(const DecodeStages& stages) {
  DecodeScratch scratch;
  return PartBytes([&](auto visit) { ForEachPart(stages, scratch, visit); });
}

DecodeScratch DecodeScratch::Take(const DecodeStages& stages, Arena& arena) {
  DecodeScratch scratch;
  TakeParts([&](auto visit) { ForEachPart(stages, scratch, visit); }, arena);
  return scratch;
}

DecodeChunk::DecodeChunk(const DecodeStages& stages, const KernelCall& call,
                         const KeyChunk& chunk, const DecodePart& part,
                         const DecodeScratch& scratch)
    : stages_(stages),
      call_(call),
      view_{stages.shape, *call.args},
      chunk_(chunk),
      part_(part),
      scratch_(scratch),
      wants_output_(call.outputs.output.wanted()),
      valid_(std::clamp<int64_t>(view_.q_length(chunk.batch), 0,
                                 stages.shape.q_length)) {}

void DecodeChunk::Run() {
  FindKeys();
  // A NaN of a query is counted once, by the first chunk.
  if (!keys_.empty() || chunk_.key_begin == 0) LoadQueries();
  Attend();
  if (keys_.empty() || !wants_output_) return;
  // An element of V that is infinite or NaN makes a sum of its column so,
  // whatever its weight: it is found without a look at every element.
  if (CountNonFinite(part_.sums, rows() * stages_.sum_stride()) == 0) return;
  is_careful_ = true;
  Attend();
}

void DecodeChunk::FindKeys() {
  keys_ = {};
  TileBounds bounds{.batch = chunk_.batch, .rows = valid_};
  for (int64_t g = 0; g < stages_.shape.group_size(); ++g) {
    bounds.head = chunk_.kv_head * stages_.shape.group_size() + g;
    KeyRange seen = stages_.pipeline.VisibleKeys(view_, bounds);
    seen.begin = std::max(seen.begin, chunk_.key_begin);
    seen.end = std::min(seen.end, chunk_.key_begin + chunk_.keys);
    if (seen.empty()) continue;
    keys_ = keys_.empty() ? seen
                          : KeyRange{std::min(keys_.begin, seen.begin),
                                     std::max(keys_.end, seen.end)};
  }
}

float DecodeChunk::ScaleOf(int64_t member) const {
  const int64_t head = chunk_.kv_head * stages_.shape.group_size() + member;
  return static_cast<float>(stages_.pipeline.score().scale(view_, head));
}

void DecodeChunk::LoadQueries() {
  const AttentionShape& shape = stages_.shape;
  const Pipeline& pipeline = stages_.pipeline;
  const int64_t width = pipeline.prepared_width();
  const int64_t group = shape.group_size();
  uses_pairs_ = stages_.has_pairs;
  for (int64_t g = 0; g < group; ++g) uses_pairs_ &= ScaleOf(g) != 0;
  std::fill_n(scratch_.queries, rows() * QueryWidth(stages_), 0.0F);
  float* to = scratch_.queries;
  for (int64_t g = 0; g < group; ++g) {
    const int64_t head = chunk_.kv_head * group + g;
    QueryRows(call_, chunk_.batch, head).Load(0, valid_, scratch_.loaded);
    if (chunk_.key_begin == 0) {
      call_.counters->nonfinite_q.fetch_add(
          CountNonFinite(scratch_.loaded, valid_ * shape.q_dim),
          std::memory_order_relaxed);
    }
    const RowSpan span{chunk_.batch, head, 0, valid_};
    float* prepared = pipeline.Prepare(view_, Side::kQuery, span,
                                       scratch_.loaded, scratch_.prepared);
    // Once for the rows instead of once for each score.
    if (!uses_pairs_) ScaleRow(prepared, valid_ * width, ScaleOf(g));
    for (int64_t r = 0; r < valid_; ++r, to += QueryWidth(stages_)) {
      std::copy_n(prepared + r * width, width, to);
    }
  }
  if (!uses_pairs_) return;
  const int64_t stride = WholePairs(width);
  std::fill_n(scratch_.pairs, rows() * stride, uint16_t{0});
  for (int64_t r = 0; r < rows(); ++r) {
    FloatToBF16(scratch_.queries + r * QueryWidth(stages_),
                scratch_.pairs + r * stride, width);
  }
}

void DecodeChunk::Attend() {
  std::fill_n(part_.states, rows(), OnlineRow{});
  if (wants_output_) {
    std::fill_n(part_.sums, rows() * stages_.sum_stride(), 0.0F);
  }
  if (keys_.empty()) return;
  Score();
  if (is_careful_) FindDirty();
  FinishScores();
  if (is_careful_) NoteExcluded();
  Absorb();
  if (wants_output_) AddValues();
}

void DecodeChunk::Score() {
  const HeadRows k = KeyRows(call_, chunk_.batch, chunk_.kv_head);
  const FewRows few{scratch_.queries, QueryWidth(stages_), rows()};
  if (uses_pairs_) {
    ScorePairs(k);
  } else if (stages_.pipeline.prepares(Side::kKey)) {
    ScoreCopies(k);
  } else {
    if (k.is_stream(keys_.begin)) {
      k.ForEachStream(keys_.begin, keys(),
                      [&](int64_t begin, const RowStream& stream) {
                        DotStream(few, stream, scratch_.scores + begin,
                                  stages_.score_stride());
                      });
    } else {
      ScoreCopies(k.Unscaled());
    }
    ScaleScores(k, false);
  }
  if (!is_careful_) CountKeys(k);
}

void DecodeChunk::ScoreCopies(const HeadRows& k) {
  const FewRows few{scratch_.queries, QueryWidth(stages_), rows()};
  const int64_t width = stages_.pipeline.prepared_width();
  ForEachStep(keys(), kCopiedKeys, [&](int64_t begin, int64_t count) {
    const int64_t key = keys_.begin + begin;
    k.Load(key, count, scratch_.copied);
    const float* prepared = stages_.pipeline.Prepare(
        view_, Side::kKey, {chunk_.batch, chunk_.kv_head, key, count},
        scratch_.copied, scratch_.prepared_keys);
    DotStream(few,
              {reinterpret_cast<const std::byte*>(prepared), DType::kF32, width,
               count, width},
              scratch_.scores + begin, stages_.score_stride());
  });
}

void DecodeChunk::ScorePairs(const HeadRows& k) {
  const FewPairs few{scratch_.pairs, WholePairs(k.width()), rows()};
  if (k.is_stream(keys_.begin)) {
    k.ForEachStream(keys_.begin, keys(),
                    [&](int64_t begin, const RowStream& stream) {
                      DotPairs(few, stream, scratch_.scores + begin,
                               stages_.score_stride());
                    });
  } else {
    ForEachStep(keys(), kCopiedKeys, [&](int64_t begin, int64_t count) {
      k.Load(keys_.begin + begin, count, scratch_.copied);
      FloatToBF16(scratch_.copied, scratch_.copied_pairs, count * k.width());
      DotPairs(few,
               {reinterpret_cast<const std::byte*>(scratch_.copied_pairs),
                DType::kBF16, k.width(), count, k.width()},
               scratch_.scores + begin, stages_.score_stride());
    });
  }
  for (int64_t r = 0; r < rows(); ++r) {
    ScaleRow(ScoresOf(r), keys(), ScaleOf(r / valid_));
  }
}

// An infinite or NaN element makes the scores of its key so: only then are the
// elements looked at.
void DecodeChunk::CountKeys(const HeadRows& k) const {
  int64_t scores = 0;
  for (int64_t r = 0; r < rows(); ++r) {
    scores += CountNonFinite(ScoresOf(r), keys());
  }
  if (scores == 0) return;
  call_.counters->nonfinite_k.fetch_add(
      CountNonFiniteRows(k, keys_.begin, keys(), scratch_.copied),
      std::memory_order_relaxed);
}

Tile<float> DecodeChunk::TileOf(int64_t member) const {
  Tile<float> tile;
  tile.bounds = {.batch = chunk_.batch,
                 .head = chunk_.kv_head * stages_.shape.group_size() + member,
                 .row_begin = 0,
                 .rows = valid_,
                 .key_begin = keys_.begin,
                 .keys = keys()};
  tile.data = ScoresOf(member * valid_);
  tile.stride = stages_.score_stride();
  return tile;
}

// From scaled scores to final logits.
void DecodeChunk::FinishScores() {
  const Pipeline& pipeline = stages_.pipeline;
  for (int64_t g = 0; g < stages_.shape.group_size(); ++g) {
    const Tile<float> tile = TileOf(g);
    Tile<float> raw = tile;
    raw.data = scratch_.raw;
    const bool counts = stages_.counts_half && !is_careful_;
    const bool raw_exceeds = counts && ExceedsHalf(tile);
    if (raw_exceeds) CopyTile(tile, raw);
    if (pipeline.finishes()) pipeline.Finish(view_, tile, nullptr);
    if (raw_exceeds || (counts && pipeline.finishes() && ExceedsHalf(tile))) {
      call_.counters->f16_overflows.fetch_add(
          CountBeyondHalf(raw_exceeds ? raw : tile, tile),
          std::memory_order_relaxed);
    }
  }
}

// All of the chunk before the first value: every pause between reads costs as
// much as hundreds of keys.
void DecodeChunk::Absorb() {
  ForEachStep(keys(), kStepKeys, [this](int64_t begin, int64_t count) {
    AbsorbTile({.data = scratch_.scores + begin,
                .stride = stages_.score_stride(),
                .rows = rows(),
                .count = count,
                .first_key = keys_.begin + begin},
               part_.states, scratch_.factors);
    for (int64_t r = 0; r < rows(); ++r) {
      if (scratch_.factors[r] != 1) {
        ScaleRow(ScoresOf(r), begin, scratch_.factors[r]);
      }
    }
  });
  for (int64_t r = 0; r < rows(); ++r) {
    std::fill_n(ScoresOf(r) + keys(), WholeRows(keys()) - keys(), 0.0F);
  }
  if (!stages_.pipeline.dropout().on()) return;
  for (int64_t g = 0; g < stages_.shape.group_size(); ++g) {
    stages_.pipeline.dropout().Apply(view_, TileOf(g));
  }
}

void DecodeChunk::AddValues() {
  const HeadRows v = ValueRows(call_, chunk_.batch, chunk_.kv_head);
  if (is_careful_) AddNonFinite(v);
  ScaleScores(v, is_careful_);
  const FewRows weights{scratch_.scores, stages_.score_stride(), rows()};
  const bool in_place =
      v.is_stream(keys_.begin) && !(is_careful_ && !v.has_scales());
  if (in_place) {
    v.ForEachStream(
        keys_.begin, keys(), [&](int64_t begin, const RowStream& stream) {
          AddStream({weights.data + begin, weights.stride, weights.rows},
                    stream, part_.sums, stages_.sum_stride());
        });
    return;
  }
  const HeadRows stored = v.Unscaled();
  ForEachStep(keys(), kCopiedKeys, [&](int64_t begin, int64_t count) {
    stored.Load(keys_.begin + begin, count, scratch_.copied);
    if (is_careful_) ZeroNonFinite(scratch_.copied, count * v.width());
    AddStream({weights.data + begin, weights.stride, weights.rows},
              {reinterpret_cast<const std::byte*>(scratch_.copied), DType::kF32,
               v.width(), count, v.width()},
              part_.sums, stages_.sum_stride());
  });
}

// The scales of int8 keys multiply scores, those of values weights. Clean: 0 in
// place of what is infinite or NaN.
void DecodeChunk::ScaleScores(const HeadRows& scaled, bool clean) {
  if (!scaled.has_scales()) return;
  const bool is_one = scaled.has_one_scale();
  const int64_t count = is_one ? 1 : keys();
  float* factors = scratch_.scales;
  scaled.LoadScales(keys_.begin, count, factors);
  if (clean) ZeroNonFinite(factors, count);
  for (int64_t r = 0; r < rows(); ++r) {
    if (is_one) {
      ScaleRow(ScoresOf(r), keys(), *factors);
    } else {
      MultiplyRow(ScoresOf(r), factors, keys());
    }
  }
}

void DecodeChunk::FindDirty() {
  const HeadRows v = ValueRows(call_, chunk_.batch, chunk_.kv_head);
  int64_t found = 0;
  for (int64_t j = 0; j < keys(); ++j) {
    const int64_t of_key =
        CountNonFiniteRows(v, keys_.begin + j, 1, scratch_.copied);
    scratch_.dirty[j] = of_key > 0 ? 1 : 0;
    found += of_key;
  }
  call_.counters->nonfinite_v.fetch_add(found, std::memory_order_relaxed);
}

// After normalising, a weight of 0 does not tell.
void DecodeChunk::NoteExcluded() {
  for (int64_t j = 0; j < keys(); ++j) {
    if (scratch_.dirty[j] == 0) continue;
    uint64_t excluded = 0;
    for (int64_t r = 0; r < rows(); ++r) {
      excluded |= uint64_t{ScoresOf(r)[j] == kMinusInfinity} << r;
    }
    scratch_.excluded[j] = excluded;
  }
}

// The terms that AddValues() leaves out, for the rows that see them.
void DecodeChunk::AddNonFinite(const HeadRows& v) {
  float* value = scratch_.copied;
  for (int64_t j = 0; j < keys(); ++j) {
    if (scratch_.dirty[j] == 0) continue;
    v.Load(keys_.begin + j, 1, value);
    for (int64_t r = 0; r < rows(); ++r) {
      if ((scratch_.excluded[j] >> r & 1) != 0) continue;
      const float weight = ScoresOf(r)[j];
      float* sums = part_.sums + r * stages_.sum_stride();
      for (int64_t c = 0; c < v.width(); ++c) {
        if (!std::isfinite(value[c])) sums[c] += weight * value[c];
      }
    }
  }
}

}  // namespace attn
