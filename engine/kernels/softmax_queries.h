// The way back of a block of query rows through a softmax, in f32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/core/gradient_sink.h"
#include "engine/kernels/backward_queries.h"
#include "engine/kernels/job_memory.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/onednn_matmul.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/kernels/softmax_keys.h"
#include "engine/kernels/softmax_rows.h"
#include "engine/tile/strided_products.h"
#include "engine/tile/tile.h"

namespace attn {

// Forms the block's scores and exponentials of whole rows again, then goes back
// from the output's gradient: five products for each panel of keys. Writes dQ
// and the row statistics; adds to a lane's gradients. Thread-safe: const.
//
// With E and f of SoftmaxRow, the head's gate g, and cotangents dO and dlse of
// a row: its weights are f E; dV += E^T (f g dO); with dP = dO V^T the logits'
// gradient is E (f g dP - f^2 g sum(E dP) + dlse / sum E).
class SoftmaxQueries {
 public:
  // Borrows `pipeline`.
  SoftmaxQueries(const Problem& problem, const Pipeline& pipeline);

  // Blocks of all query heads that read one KV head.
  int64_t blocks_per_plane() const;
  int64_t block_rows() const { return blocks_.block_rows(); }
  RowBlock BlockAt(const CallView& view, int64_t plane, int64_t block) const;
  size_t worker_scratch_bytes() const;

  void Run(const KernelCall& call, const RowBlock& block,
           const SoftmaxKeyPlane& keys, const SharedGradients& shared,
           Arena& arena) const;

 private:
  // The memory of one job. Padded as SoftmaxKeyPlane is.
  struct Memory {
    float* q = nullptr;           // [rows, width], if not read in place
    float* scaled_q = nullptr;    // [rows, padded width], finite: scale * q
    float* d_output = nullptr;    // [rows, d_v], if not read in place
    float* d_value = nullptr;     // [rows, padded d_v], finite: f g dO
    float* q_gradient = nullptr;  // [rows, padded width]
    float* row = nullptr;         // for sparsifiers
    // Tiles of whole rows. Each is null where the problem does not need it.
    float* weights = nullptr;   // scores, then E
    float* gradient = nullptr;  // dP, then that of the logits
    float* scores = nullptr;    // before the softcap
    float* logits = nullptr;    // final, for the temperature
    float* mixed = nullptr;     // E after dropout
    double* wide = nullptr;     // a row of the gradient, for biases
    double* kept = nullptr;     // see RowsRecord
    double* prepared = nullptr;
    double* compared = nullptr;
    double* row_gradient = nullptr;
    double* products = nullptr;  // [rows], sum(E dP)
    double* gates = nullptr;     // [rows], 1 without a head gate
    double* lse = nullptr;       // [rows], dlse
    SoftmaxRow* rows = nullptr;
  };
  // What the steps of one job share.
  struct Job {
    const KernelCall& call;
    const CallView& view;
    const RowBlock& block;
    const SoftmaxKeyPlane& keys;
    const Memory& memory;
    // Keys that some row may see, and the first key of their first panel.
    KeyRange visible;
    int64_t first_key = 0;
    int64_t stride = 0;
    RowStatistics* statistics = nullptr;
    double scale = 1;
    ConstMatrix q = {};  // prepared rows
    ConstMatrix d_output = {};
    bool has_gaps = false;  // whether d_value leaves something out

    int64_t rows() const { return block.valid_rows; }
    // The visible keys, or a part of them, of one of the tiles.
    Tile<float> TileOf(float* data) const { return TileOf(data, visible); }
    Tile<float> TileOf(float* data, KeyRange keys) const;
  };
  // One side of every key, as in SoftmaxKeyPlane.
  struct Panels {
    const float* data = nullptr;
    int64_t width = 0;
  };
  std::array<FloatJobArray, 11> FloatsOf(Memory& memory) const;
  Memory Allocate(Arena& arena) const;
  std::array<JobArray, 8> DoublesOf(Memory& memory) const;
  int64_t stride() const;

  // Calls visit(keys) for each part of the visible keys, in order.
  template <typename Visit>
  void ForEachPart(const Job& job, const Visit& visit) const;

  ConstMatrix LoadQueries(const Job& job) const;
  void ScaleQueries(const Job& job) const;
  ConstMatrix LoadCotangents(const Job& job) const;
  void FillTile(const Job& job, KeyRange keys, const LeftOperand& left,
                const Panels& panels, const ProductTarget& tile) const;
  void FillScores(const Job& job) const;
  void Weigh(const Job& job, KeyRange keys) const;
  bool RowsBackward(const Job& job, const SharedGradients& shared) const;
  void LogitsBackward(const Job& job, KeyRange keys,
                      const SharedGradients& shared) const;
  void AddKeyGradients(const Job& job, KeyRange keys) const;
  void AddNonFinite(const Job& job, const Tile<float>& mixed, int64_t r) const;
  void AddQueryGradients(const Job& job, KeyRange keys) const;
  void ScaleQueryGradients(const Job& job, const SharedGradients& shared) const;
  void StoreQueries(const Job& job, const GradientSink& sink) const;
  void StoreRun(const Job& job, int64_t r, int64_t count,
                const GradientSink& sink) const;

  AttentionShape shape_;
  const Pipeline& pipeline_;
  SoftmaxRows rows_;
  bool prepares_;
  bool has_temperatures_;
  bool wants_biases_;
  int64_t width_;  // of a prepared row
  int64_t padded_width_;
  int64_t padded_v_dim_;
  RowBlocks blocks_;
  int64_t blocks_per_head_;
};

}  // namespace attn
