#include "engine/kernels/flash_simd.h"

#include <algorithm>
#include <string>

#include "engine/kernels/flash_block.h"
#include "engine/kernels/online_state.h"
#include "engine/kernels/row_describer.h"
#include "engine/tile/row_sums.h"

namespace attn {
namespace {

// A KV head with at most so many query rows, and whose packed K and V take at
// most so many bytes, is computed by one job: it packs and attends while all of
// it is in the second cache, and nothing goes through the call's memory.
// Several such heads make a job as long as they have at most so many
// multiplications.
constexpr int64_t kMaxRowsOfOneJob = 512;
constexpr size_t kMaxPlaneOfOneJob = size_t{1} << 19;
constexpr int64_t kMaxProductsOfOneJob = int64_t{8} << 20;
// Multiplications of a job of either kind: beyond them the time until it sees
// that its call is cancelled comes first, and a block has fewer rows.
constexpr int64_t kMaxBlockProducts = int64_t{128} << 20;
constexpr int64_t kMinBlockRows = 12;

// Multiplications of a query row.
int64_t RowProducts(const AttentionShape& shape) {
  return std::max<int64_t>(shape.kv_length, 1) *
         std::max(shape.q_dim + shape.v_dim, kLeastPairWidth);
}

int64_t BlockRows(const AttentionShape& shape) {
  const int64_t row = RowProducts(shape);
  int64_t rows = kFlashRows;
  while (rows / 2 >= kMinBlockRows && rows * row > kMaxBlockProducts) rows /= 2;
  return rows;
}

class FlashSimdExecution final : public Execution {
 public:
  FlashSimdExecution(const Problem& problem, KeyFormat format)
      : shape_(problem.shape),
        pipeline_(problem),
        keys_(problem, pipeline_, format),
        values_(problem, kFlashChunkKeys, kColumnUnit),
        stages_{shape_, pipeline_, keys_, values_,
                problem.counts_f16_overflows},
        blocks_(shape_, BlockRows(shape_)),
        chunks_(shape_, kFlashChunkKeys) {
    if (problem.outputs.statistics) {
      norms_bytes_ =
          Arena::Padded(static_cast<size_t>(shape_.kv_length) * sizeof(float));
    }
    const int64_t rows = shape_.group_size() * shape_.q_length;
    if (rows > kMaxRowsOfOneJob || PlaneBytes() > kMaxPlaneOfOneJob) return;
    const int64_t products = std::max<int64_t>(rows, 1) * RowProducts(shape_);
    one_phase_ = products <= kMaxBlockProducts;
    planes_of_one_job_ = std::clamp<int64_t>(kMaxProductsOfOneJob / products, 1,
                                             std::max<int64_t>(Planes(), 1));
  }

  int phase_count() const override { return one_phase_ ? 1 : 2; }
  int64_t job_count(int phase) const override {
    if (one_phase_) {
      return (Planes() + planes_of_one_job_ - 1) / planes_of_one_job_;
    }
    return phase == 0 ? chunks_.count() : blocks_.count();
  }
  size_t worker_scratch_bytes() const override {
    const size_t packing = Arena::Padded(PackingElements() * sizeof(float));
    const size_t block = FlashScratch::Bytes(stages_);
    if (one_phase_) return PlaneBytes() + packing + block;
    return std::max(packing, block);
  }
  size_t call_scratch_bytes() const override {
    return one_phase_ ? 0 : static_cast<size_t>(Planes()) * PlaneBytes();
  }
  void RunJob(const KernelCall& call, int phase, int64_t job,
              Arena& arena) const override {
    if (one_phase_) {
      RunPlanes(call, job, arena);
    } else if (phase == 0) {
      const KeyChunk chunk = chunks_.At({shape_, *call.args}, job);
      auto* const scratch = arena.Allocate<float>(PackingElements());
      Pack(call, chunk, PlaneOf(call, chunk.batch, chunk.kv_head), scratch);
    } else {
      const RowBlock block = blocks_.At({shape_, *call.args}, job);
      const int64_t kv_head = block.head / shape_.group_size();
      Attend(call, block, PlaneOf(call, block.batch, kv_head),
             FlashScratch::Take(stages_, arena));
    }
  }

 private:
  int64_t Planes() const { return shape_.batch * shape_.kv_heads; }
  // A plane holds keys, values and, for statistics, the values' norms.
  size_t ValuesOffset() const { return keys_.plane_bytes(); }
  float* NormsAt(std::byte* plane) const {
    if (norms_bytes_ == 0) return nullptr;
    return reinterpret_cast<float*>(plane + ValuesOffset() +
                                    values_.plane_bytes());
  }
  size_t PlaneBytes() const {
    return ValuesOffset() + values_.plane_bytes() + norms_bytes_;
  }
  size_t PackingElements() const {
    return static_cast<size_t>(
        std::max(keys_.scratch_elements(), values_.chunk_elements()));
  }
  std::byte* PlaneOf(const KernelCall& call, int64_t batch,
                     int64_t kv_head) const {
    const int64_t plane = batch * shape_.kv_heads + kv_head;
    return call.scratch + static_cast<size_t>(plane) * PlaneBytes();
  }

  void Pack(const KernelCall& call, const KeyChunk& chunk, std::byte* plane,
            float* scratch) const {
    keys_.Pack(call, chunk, plane, scratch);
    values_.Prepare(call, chunk, plane + ValuesOffset(), scratch);
    if (norms_bytes_ > 0) PackNorms(call, chunk, plane, scratch);
  }
  void PackNorms(const KernelCall& call, const KeyChunk& chunk,
                 std::byte* plane, float* scratch) const {
    float* norms = NormsAt(plane) + chunk.key_begin;
    const std::byte* values = plane + ValuesOffset();
    if (values_.ChunkIsClean(values, chunk.key_begin)) {
      const ConstMatrix rows = values_.Values(call, chunk, values, scratch);
      NormsOf(rows.data, rows.stride, shape_.v_dim, chunk.keys, norms);
    } else {
      ValueNorms(ValueRows(call, chunk.batch, chunk.kv_head), chunk.key_begin,
                 chunk.keys, scratch, norms);
    }
  }
  void Attend(const KernelCall& call, const RowBlock& block, std::byte* plane,
              const FlashScratch& scratch) const {
    FlashBlock(stages_, call, block,
               {plane, plane + ValuesOffset(), NormsAt(plane)}, scratch)
        .Run();
  }
  // All of some KV heads, one after the other in the same memory.
  void RunPlanes(const KernelCall& call, int64_t job, Arena& arena) const {
    auto* const memory = arena.Allocate<std::byte>(PlaneBytes());
    auto* const packing = arena.Allocate<float>(PackingElements());
    const FlashScratch scratch = FlashScratch::Take(stages_, arena);
    const int64_t begin = job * planes_of_one_job_;
    const int64_t end = std::min(begin + planes_of_one_job_, Planes());
    const CallView view{shape_, *call.args};
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t chunks = chunks_.count() / Planes();
      for (int64_t c = 0; c < chunks; ++c) {
        Pack(call, chunks_.At(view, plane * chunks + c), memory, packing);
      }
      // The query heads of a KV head follow each other, and so do their blocks.
      const int64_t blocks = blocks_.count() / Planes();
      for (int64_t b = 0; b < blocks; ++b) {
        Attend(call, blocks_.At(view, plane * blocks + b), memory, scratch);
      }
    }
  }

  AttentionShape shape_;
  Pipeline pipeline_;
  PackedKeys keys_;
  PreparedValues values_;
  FlashStages stages_;
  RowBlocks blocks_;
  KeyChunks chunks_;
  int64_t planes_of_one_job_ = 1;
  size_t norms_bytes_ = 0;
  bool one_phase_ = false;
};

class FlashSimd final : public Kernel {
 public:
  const char* name() const override { return "flash_simd"; }
  std::string WhyNot(const Problem& problem) const override {
    return WhyNotOnline(problem);
  }
  std::unique_ptr<const Execution> Prepare(
      const Problem& problem) const override {
    return MakeFlashExecution(problem, KeyFormat::kPanels);
  }
};

}  // namespace

std::unique_ptr<const Execution> MakeFlashExecution(const Problem& problem,
                                                    KeyFormat format) {
  return std::make_unique<FlashSimdExecution>(problem, format);
}

const Kernel& FlashSimdKernel() {
  static const FlashSimd kKernel;
  return kKernel;
}

}  // namespace attn
