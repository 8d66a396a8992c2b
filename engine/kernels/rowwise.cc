#include "engine/kernels/rowwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/kernels/block_writer.h"
#include "engine/kernels/head_rows.h"
#include "engine/kernels/onednn_matmul.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/kernels/prepared_keys.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Rows of a block. 64 give oneDNN's products their speed: at 16384 keys, where
// the scores are long out of the cache, a block of 64 rows was twice as fast as
// one of 16. Beyond 32768 keys the memory of a worker, and the time until a job
// sees that its call is cancelled, come first.
constexpr int64_t kMaxBlockRows = 64;
constexpr int64_t kMinBlockRows = 16;
constexpr int64_t kMaxScores = (int64_t{8} << 20) / sizeof(float);

// Keys of one product of weights and values: the accumulation over chunks is
// part of the result's bits, so that it is fixed.
constexpr int64_t kChunkKeys = 512;

int64_t BlockRows(const AttentionShape& shape) {
  const int64_t fitting =
      kMaxScores / std::max<int64_t>(shape.kv_length, 1) / 8 * 8;
  return std::clamp(fitting, kMinBlockRows, kMaxBlockRows);
}

// From one row of scores to the next, in whole cache lines.
int64_t ScoreStride(int64_t keys) { return (keys + 15) / 16 * 16; }

class RowwiseExecution final : public Execution {
 public:
  explicit RowwiseExecution(const Problem& problem)
      : shape_(problem.shape),
        pipeline_(problem),
        keys_(problem, pipeline_, kChunkKeys),
        blocks_(shape_, BlockRows(shape_)) {}

  int phase_count() const override { return 2; }
  int64_t job_count(int phase) const override {
    return phase == 0 ? keys_.chunks().count() : blocks_.count();
  }
  size_t worker_scratch_bytes() const override;
  size_t call_scratch_bytes() const override {
    return keys_.call_scratch_bytes();
  }
  void RunJob(const KernelCall& call, int phase, int64_t job,
              Arena& arena) const override;

 private:
  // The scratch of one job.
  struct Scratch {
    float* q = nullptr;
    float* prepared_q = nullptr;
    float* row = nullptr;  // for sparsifiers
    float* chunk = nullptr;
    float* scores = nullptr;
    float* final_logits = nullptr;  // for a weight program
    float* output = nullptr;
    uint64_t* excluded = nullptr;
  };
  // What the steps of one job share.
  struct Job {
    const KernelCall& call;
    const CallView& view;
    const RowBlock& block;
    const Scratch& scratch;
    // Keys that some row may see, and all that the tile holds.
    KeyRange visible;
    KeyRange held;

    Tile<float> TileOf(KeyRange range) const;
    Tile<float> FinalLogits() const;
    KeyChunk Part(KeyRange range, int64_t group) const {
      return {block.batch, block.head / group, range.begin,
              range.end - range.begin};
    }
  };

  // Elements of Scratch::prepared_q and of Scratch::row.
  int64_t PreparedElements() const {
    return pipeline_.prepares(Side::kQuery)
               ? blocks_.block_rows() * pipeline_.prepared_width()
               : 0;
  }
  int64_t RowElements() const {
    return pipeline_.has_sparsifiers() ? shape_.kv_length : 0;
  }
  int64_t ScoreElements() const {
    return blocks_.block_rows() * ScoreStride(shape_.kv_length);
  }
  int64_t FinalLogitElements() const {
    return pipeline_.weight_program() != nullptr ? ScoreElements() : 0;
  }
  Scratch Allocate(Arena& arena) const;
  void Attend(const KernelCall& call, int64_t job, Arena& arena) const;
  void Weigh(const Job& job, const BlockWriter<float>& writer) const;
  ConstMatrix Queries(const Job& job) const;
  // The factor of a matrix product; 1 for other scores.
  double ScaleOf(const Job& job) const;
  void FillScores(const Job& job, ConstMatrix q, KeyRange range) const;
  void NoteExcluded(const Job& job, const Tile<float>& tile) const;
  void AddValues(const Job& job, const Tile<float>& weights) const;
  void AddNonFinite(const Job& job, const KeyChunk& part,
                    const Tile<float>& weights) const;

  AttentionShape shape_;
  Pipeline pipeline_;
  PreparedKeys keys_;
  RowBlocks blocks_;
};

size_t RowwiseExecution::worker_scratch_bytes() const {
  const auto floats = [](int64_t count) {
    return Arena::Padded(static_cast<size_t>(count) * sizeof(float));
  };
  const int64_t rows = blocks_.block_rows();
  return floats(rows * shape_.q_dim) + floats(PreparedElements()) +
         floats(RowElements()) + floats(keys_.chunk_elements()) +
         floats(ScoreElements()) + floats(FinalLogitElements()) +
         floats(rows * shape_.v_dim) +
         Arena::Padded(static_cast<size_t>(shape_.kv_length) *
                       sizeof(uint64_t));
}

RowwiseExecution::Scratch RowwiseExecution::Allocate(Arena& arena) const {
  const auto floats = [&arena](int64_t count) {
    return arena.Allocate<float>(static_cast<size_t>(count));
  };
  const int64_t rows = blocks_.block_rows();
  return {.q = floats(rows * shape_.q_dim),
          .prepared_q = floats(PreparedElements()),
          .row = floats(RowElements()),
          .chunk = floats(keys_.chunk_elements()),
          .scores = floats(ScoreElements()),
          .final_logits = floats(FinalLogitElements()),
          .output = floats(rows * shape_.v_dim),
          .excluded =
              arena.Allocate<uint64_t>(static_cast<size_t>(shape_.kv_length))};
}

Tile<float> RowwiseExecution::Job::TileOf(KeyRange range) const {
  Tile<float> tile;
  tile.bounds = {.batch = block.batch,
                 .head = block.head,
                 .row_begin = block.row_begin,
                 .rows = block.valid_rows,
                 .key_begin = range.begin,
                 .keys = range.end - range.begin};
  tile.stride = ScoreStride(held.end - held.begin);
  tile.data = scratch.scores + (range.begin - held.begin);
  return tile;
}

// A copy of the visible keys' tile.
Tile<float> RowwiseExecution::Job::FinalLogits() const {
  Tile<float> tile = TileOf(visible);
  tile.data = scratch.final_logits;
  return tile;
}

void RowwiseExecution::RunJob(const KernelCall& call, int phase, int64_t job,
                              Arena& arena) const {
  if (phase == 0) {
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
  const Scratch scratch = Allocate(arena);
  const BlockWriter<float> writer(call, block);
  std::fill_n(writer.statistics(), block.rows, RowStatistics{});

  Job job{call, view, block, scratch, {}, {}};
  if (block.valid_rows > 0) {
    job.visible = pipeline_.VisibleKeys(view, job.TileOf({}).bounds);
    if (job.visible.empty()) job.visible = {};
    job.held = call.outputs.logits.wanted()
                   ? KeyRange{0, view.kv_length(block.batch)}
                   : job.visible;
  }
  Weigh(job, writer);
  writer.Lse();
  writer.DropoutKeep(view, pipeline_.dropout());
  if (call.outputs.output.wanted()) {
    const Tile<float> weights = job.TileOf(job.visible);
    pipeline_.dropout().Apply(view, weights);
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
  if (tile.bounds.keys > 0) {
    pipeline_.Finish(job.view, tile, job.scratch.row);
  }
  writer.MaskedLogits(tile);
  NoteExcluded(job, tile);
  if (tile.bounds.keys > 0) {
    const Tile<float> final_logits = job.FinalLogits();
    if (pipeline_.weight_program() != nullptr) {
      std::copy_n(tile.data,
                  (tile.bounds.rows - 1) * tile.stride + tile.bounds.keys,
                  final_logits.data);
    }
    pipeline_.normalizer().Normalize(job.view, tile, writer.statistics());
    pipeline_.FinishWeights(job.view, tile, final_logits);
  }
  writer.Weights(tile);
}

ConstMatrix RowwiseExecution::Queries(const Job& job) const {
  const HeadRows q(job.call.args->q, job.block.batch, job.block.head);
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
  // A product with a factor of 0 need not read its operands, but 0 * NaN is
  // NaN.
  if (ScaleOf(job) == 0) ScaleRow(prepared, count * width, 0);
  return {prepared, width};
}

double RowwiseExecution::ScaleOf(const Job& job) const {
  const Score& score = pipeline_.score();
  return score.is_dot() ? score.scale(job.view, job.block.head) : 1;
}

void RowwiseExecution::FillScores(const Job& job, ConstMatrix q,
                                  KeyRange range) const {
  if (range.empty()) return;
  const bool is_dot = pipeline_.score().is_dot();
  const double scale = ScaleOf(job);
  const float alpha = scale == 0 ? 1.0F : static_cast<float>(scale);
  const Tile<float> tile = job.TileOf(range);
  const int64_t step =
      keys_.KeysInPlace(job.call) ? tile.bounds.keys : kChunkKeys;
  for (int64_t key = range.begin; key < range.end; key += step) {
    const KeyRange part{key, std::min(key + step, range.end)};
    const ConstMatrix k = keys_.Keys(
        job.call, job.Part(part, shape_.group_size()), job.scratch.chunk);
    if (is_dot) {
      MultiplyTransposed(
          {job.block.valid_rows, part.end - part.begin, keys_.key_width()},
          alpha, q, k, {tile.data + (key - range.begin), tile.stride});
    } else {
      Tile<float> scored = job.TileOf(part);
      pipeline_.score().Compute(job.view, q.data, k.data, scored);
    }
  }
}

// Calls `visit` with the part of every chunk that lies in `range`.
template <typename Visit>
void ForEachChunk(KeyRange range, Visit visit) {
  for (int64_t key = range.begin; key < range.end;) {
    const int64_t end =
        std::min((key / kChunkKeys + 1) * kChunkKeys, range.end);
    visit(KeyRange{key, end});
    key = end;
  }
}

// Keeps which rows do not see a key whose value is infinite or NaN: bit r for
// row r. After normalising a weight of 0 does not tell.
void RowwiseExecution::NoteExcluded(const Job& job,
                                    const Tile<float>& tile) const {
  static_assert(kMaxBlockRows <= 64);
  ForEachChunk(job.visible, [&](KeyRange range) {
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
  const Matrix output{job.scratch.output, shape_.v_dim};
  std::fill_n(output.data, job.block.valid_rows * shape_.v_dim, 0.0F);
  const auto columns = [&](const KeyRange& range) {
    return weights.data + (range.begin - weights.bounds.key_begin);
  };
  ForEachChunk(job.visible, [&](KeyRange range) {
    const KeyChunk part = job.Part(range, shape_.group_size());
    Multiply({job.block.valid_rows, shape_.v_dim, part.keys},
             {columns(range), weights.stride},
             keys_.Values(job.call, part, job.scratch.chunk), true, output);
  });
  ForEachChunk(job.visible, [&](KeyRange range) {
    const KeyChunk part = job.Part(range, shape_.group_size());
    if (!keys_.ChunkIsClean(job.call, part)) AddNonFinite(job, part, weights);
  });
}

// The terms that Values() left out, for the rows that see them.
void RowwiseExecution::AddNonFinite(const Job& job, const KeyChunk& part,
                                    const Tile<float>& weights) const {
  const HeadRows v(job.call.args->v, part.batch, part.kv_head);
  float* value = job.scratch.chunk;
  for (int64_t key = part.key_begin; key < part.key_begin + part.keys; ++key) {
    if (keys_.KeyIsClean(job.call, part, key)) continue;
    v.Load(key, 1, value);
    for (int64_t r = 0; r < job.block.valid_rows; ++r) {
      if ((job.scratch.excluded[key] >> r & 1) != 0) continue;
      const float weight = weights.Row(r)[key - weights.bounds.key_begin];
      float* row = job.scratch.output + r * shape_.v_dim;
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
