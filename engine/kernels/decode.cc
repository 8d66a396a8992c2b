#include "engine/kernels/decode.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/kernels/block_writer.h"
#include "engine/kernels/decode_chunk.h"
#include "engine/kernels/onednn_matmul.h"
#include "engine/kernels/online_state.h"

namespace attn {
namespace {

// Query rows of a KV head, beyond which products of packed tiles are faster.
// Measured against flash_simd on Zen 4, one thread, F32: with 16 keys 16 rows
// take 1.24 of its time; with 128 keys 16 rows 0.82 to 0.97, 32 rows 0.97 to
// 1.11; with 4096 keys, which it packs for few rows, 64 rows 0.75 to 0.93. With
// one or two rows of a head its tiles are nearly empty: 64 rows take 0.34 to
// 0.91.
int64_t MostRows(const AttentionShape& shape) {
  if (shape.kv_length >= 1024 || shape.q_length <= 2) return kMaxDecodeRows;
  return shape.kv_length >= 64 ? 16 : 8;
}

// Keys of a chunk. Memory is read at full speed only a while after the change
// from K to V: on Zen 4, chunks of 256, 1024 and 2048 keys of 512 bytes reach
// 71, 85 and 89 % of the bandwidth. Part of the result's bits: of keys alone,
// so that a sequence has them in any company of its extents.
int64_t ChunkKeys(const Problem& problem) {
  constexpr int64_t kLongRowBytes = 512;
  const int64_t row_bytes =
      problem.shape.k_dim * static_cast<int64_t>(SizeOf(problem.kv_dtype));
  return row_bytes >= kLongRowBytes ? 2048 : 4096;
}

// Where queries and keys come as bfloat16 and stay so, their products are exact
// in pairs too, but for subnormal numbers, which count as 0. Not under a cap on
// the instruction set that leaves no products of bfloat16.
bool HasPairs(const Problem& problem, const Pipeline& pipeline) {
  return problem.dtype == DType::kBF16 && problem.kv_dtype == DType::kBF16 &&
         !pipeline.prepares(Side::kQuery) && !pipeline.prepares(Side::kKey) &&
         OneDnnNarrowProducts() != NarrowProducts::kNone && HasPairDots();
}

// Phase 0: every chunk of keys of every KV head gives a part. Phase 1: the
// parts of a KV head are joined in order. Where there is one chunk, it is
// joined by its own job.
class DecodeExecution final : public Execution {
 public:
  explicit DecodeExecution(const Problem& problem)
      : shape_(problem.shape),
        pipeline_(problem),
        stages_{shape_, pipeline_, problem.counts_f16_overflows,
                ChunkKeys(problem), HasPairs(problem, pipeline_)},
        // One at least, that writes the rows that see no key.
        chunks_(std::max<int64_t>(
            (shape_.kv_length + stages_.chunk_keys - 1) / stages_.chunk_keys,
            1)) {}

  int phase_count() const override { return chunks_ == 1 ? 1 : 2; }
  int64_t job_count(int phase) const override {
    return phase == 0 ? Planes() * chunks_ : Planes();
  }
  size_t worker_scratch_bytes() const override {
    const auto output = static_cast<size_t>(shape_.q_length * shape_.v_dim);
    return DecodeScratch::Bytes(stages_) + PartBytes() +
           Arena::Padded(output * sizeof(float));
  }
  size_t call_scratch_bytes() const override {
    return chunks_ == 1 ? 0
                        : static_cast<size_t>(Planes() * chunks_) * PartBytes();
  }
  void RunJob(const KernelCall& call, int phase, int64_t job,
              Arena& arena) const override {
    if (phase == 1) return Join(call, job, PartsOf(call, job), arena);
    if (chunks_ > 1) {
      std::byte* parts = PartsOf(call, job / chunks_);
      RunChunk(call, job, PartAt(parts, job % chunks_), arena);
      return;
    }
    auto* const memory = arena.Allocate<std::byte>(PartBytes());
    RunChunk(call, job, PartAt(memory, 0), arena);
    Join(call, job, memory, arena);
  }

 private:
  int64_t Planes() const { return shape_.batch * shape_.kv_heads; }
  size_t StateBytes() const {
    return Arena::Padded(static_cast<size_t>(stages_.rows()) *
                         sizeof(OnlineRow));
  }
  size_t PartBytes() const {
    const auto sums =
        static_cast<size_t>(stages_.rows() * stages_.sum_stride());
    return StateBytes() + Arena::Padded(sums * sizeof(float));
  }
  // The parts of a KV head.
  std::byte* PartsOf(const KernelCall& call, int64_t plane) const {
    return call.scratch + static_cast<size_t>(plane * chunks_) * PartBytes();
  }
  DecodePart PartAt(std::byte* parts, int64_t chunk) const {
    std::byte* part = parts + static_cast<size_t>(chunk) * PartBytes();
    return {reinterpret_cast<OnlineRow*>(part),
            reinterpret_cast<float*>(part + StateBytes())};
  }

  void RunChunk(const KernelCall& call, int64_t job, const DecodePart& part,
                Arena& arena) const;
  void Join(const KernelCall& call, int64_t plane, std::byte* parts,
            Arena& arena) const;
  void JoinRow(std::byte* parts, int64_t row, absl::Span<const double> sinks,
               RowStatistics* statistics, float* output) const;

  AttentionShape shape_;
  Pipeline pipeline_;
  DecodeStages stages_;
  int64_t chunks_;
};

void DecodeExecution::RunChunk(const KernelCall& call, int64_t job,
                               const DecodePart& part, Arena& arena) const {
  const CallView view{shape_, *call.args};
  const int64_t plane = job / chunks_;
  KeyChunk chunk{.batch = plane / shape_.kv_heads,
                 .kv_head = plane % shape_.kv_heads,
                 .key_begin = job % chunks_ * stages_.chunk_keys};
  chunk.keys = std::clamp<int64_t>(
      view.kv_length(chunk.batch) - chunk.key_begin, 0, stages_.chunk_keys);
  DecodeChunk(stages_, call, chunk, part, DecodeScratch::Take(stages_, arena))
      .Run();
}

void DecodeExecution::Join(const KernelCall& call, int64_t plane,
                           std::byte* parts, Arena& arena) const {
  const CallView view{shape_, *call.args};
  auto* const output = arena.Allocate<float>(
      static_cast<size_t>(shape_.q_length * shape_.v_dim));
  RowBlock block{.batch = plane / shape_.kv_heads, .rows = shape_.q_length};
  block.valid_rows =
      std::clamp<int64_t>(view.q_length(block.batch), 0, block.rows);
  const int64_t group = shape_.group_size();
  for (int64_t g = 0; g < group; ++g) {
    block.head = plane % shape_.kv_heads * group + g;
    const BlockWriter<float> writer(call, block);
    double storage[kMaxSinks];
    const absl::Span<const double> sinks =
        pipeline_.normalizer().Sinks(view, block.head, storage);
    std::fill_n(writer.statistics(), block.rows, RowStatistics{});
    for (int64_t r = 0; r < block.valid_rows; ++r) {
      JoinRow(
          parts, g * block.valid_rows + r, sinks, writer.statistics() + r,
          call.outputs.output.wanted() ? output + r * shape_.v_dim : nullptr);
    }
    writer.Lse();
    if (!call.outputs.output.wanted()) continue;
    pipeline_.head_gate().Apply(view, block, output);
    writer.Output(output);
  }
}

// `output` may be null.
void DecodeExecution::JoinRow(std::byte* parts, int64_t row,
                              absl::Span<const double> sinks,
                              RowStatistics* statistics, float* output) const {
  OnlineRow whole;
  for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
    whole = JoinStates(whole, PartAt(parts, chunk).states[row]);
  }
  const double factor = DescribeState(whole, sinks, statistics);
  if (output == nullptr) return;
  if (chunks_ == 1) {
    // What the sums below would be.
    const float* sums = PartAt(parts, 0).sums + row * stages_.sum_stride();
    std::transform(sums, sums + shape_.v_dim, output, [factor](float sum) {
      return static_cast<float>(0.0 + factor * static_cast<double>(sum));
    });
    return;
  }
  constexpr int64_t kColumns = 64;
  for (int64_t begin = 0; begin < shape_.v_dim; begin += kColumns) {
    const int64_t count = std::min(kColumns, shape_.v_dim - begin);
    double sums[kColumns] = {};
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      const DecodePart part = PartAt(parts, chunk);
      const OnlineRow& state = part.states[row];
      if (state.visible == 0) continue;
      const double share = factor * std::exp(static_cast<double>(state.max) -
                                             static_cast<double>(whole.max));
      const float* from = part.sums + row * stages_.sum_stride() + begin;
      for (int64_t c = 0; c < count; ++c) {
        sums[c] += share * static_cast<double>(from[c]);
      }
    }
    for (int64_t c = 0; c < count; ++c) {
      output[begin + c] = static_cast<float>(sums[c]);
    }
  }
}

class Decode final : public Kernel {
 public:
  const char* name() const override { return "decode"; }
  std::string WhyNot(const Problem& problem) const override {
    const int64_t rows = problem.shape.group_size() * problem.shape.q_length;
    const int64_t most = MostRows(problem.shape);
    if (rows > most) {
      return absl::StrCat(rows, " query rows of a KV head are more than ",
                          most);
    }
    if (problem.outputs.statistics) {
      return "moments of the logits need tiles of them";
    }
    return WhyNotOnline(problem);
  }
  std::unique_ptr<const Execution> Prepare(
      const Problem& problem) const override {
    return std::make_unique<DecodeExecution>(problem);
  }
};

}  // namespace

const Kernel& DecodeKernel() {
  static const Decode kKernel;
  return kKernel;
}

}  // namespace attn
