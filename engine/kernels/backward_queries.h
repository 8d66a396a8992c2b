// The way back of a block of query rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/core/gradient_sink.h"
#include "engine/kernels/backward_keys.h"
#include "engine/kernels/job_memory.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"

namespace attn {

// Where a block adds what it shares with others.
struct SharedGradients {
  const GradientSink& sink;
  StageGradients& stages;
};

// Forms the block's scores and weights again, then goes back from the output's
// gradient: weights, normalizer, logits, scores, rows. Writes dQ and the row
// statistics; adds to the plane's gradients. Thread-safe: const.
class BackwardQueries {
 public:
  // Borrows `pipeline`.
  BackwardQueries(const Problem& problem, const Pipeline& pipeline);

  // Blocks of all query heads that read one KV head.
  int64_t blocks_per_plane() const;
  RowBlock BlockAt(const CallView& view, int64_t plane, int64_t block) const;
  size_t worker_scratch_bytes() const;

  void Run(const KernelCall& call, const RowBlock& block, const KeyPlane& keys,
           const SharedGradients& shared, Arena& arena) const;

 private:
  // The double-precision memory of one job.
  struct Memory {
    double* kept = nullptr;      // rows on their way, see RowsRecord
    double* prepared = nullptr;  // [rows, width]
    double* compared_gradient = nullptr;
    double* row_gradient = nullptr;     // [rows, d_q]
    double* direct_gradient = nullptr;  // [rows, d_q], see TileGradient
    double* output_gradient = nullptr;  // [rows, d_v]
    double* lse_gradient = nullptr;     // [rows]
    double* gates = nullptr;            // [rows], 1 without a head gate
    double* values = nullptr;           // of a chunk of V
    double* row = nullptr;              // for sparsifiers
    double* tiles = nullptr;            // of scores, one after the other
  };
  std::array<JobArray, 11> ArraysOf(Memory& memory) const;
  int64_t tile_count() const;
  TileRecord MakeRecord(const TileBounds& bounds, double* tiles) const;
  Tile<double> GradientTile(const TileRecord& record, double* tiles) const;

  void LoadCotangents(const KernelCall& call, const RowBlock& block,
                      const Memory& memory) const;
  void MixBackward(const KernelCall& call, const TileRecord& record,
                   const Tile<double>& gradient, const KeyPlane& keys,
                   const Memory& memory) const;
  void GateBackward(const CallView& view, const RowBlock& block,
                    const TileRecord& record, const Tile<double>& gradient,
                    const GradientSink& sink) const;
  void AddDirect(const Memory& memory, int64_t r, int64_t count) const;
  void StoreRows(const KernelCall& call, const RowBlock& block,
                 const RowsRecord& rows, const Memory& memory,
                 const GradientSink& sink) const;

  AttentionShape shape_;
  const Pipeline& pipeline_;
  int64_t width_;  // of a prepared row
  RowBlocks blocks_;
  int64_t blocks_per_head_;
};

}  // namespace attn
