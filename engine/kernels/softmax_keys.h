// K and V made ready for the way back of a softmax in f32, and what their
// gradients add up in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/core/gradient_sink.h"
#include "engine/kernels/job_memory.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/onednn_matmul.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/tile/tile_products.h"

namespace attn {

// One KV head's keys and one lane's gradients in the call's scratch. Widths are
// padded by RoundUpToColumnUnit(), with zeros.
struct SoftmaxKeyPlane {
  // Panel by panel, [width, kPanelKeys] each; the last is filled with zeros to
  // the next unit of columns, and holds anything beyond.
  float* key_panels = nullptr;
  float* value_panels = nullptr;
  // [Sk, padded width]: prepared rows with 0 for what is infinite or NaN, so
  // that a gradient of 0 times such a row is 0.
  float* key_rows = nullptr;
  float* key_gradient = nullptr;    // [Sk, padded width], of the prepared rows
  float* value_gradient = nullptr;  // [Sk, padded d_v]
};

// Prepare() for each chunk, then the jobs that add to a lane, one at a time,
// then Finish() for each chunk. Thread-safe: const; chunks are disjoint.
class SoftmaxKeys {
 public:
  // Borrows `pipeline`. Each of `lanes` has gradients of its own.
  SoftmaxKeys(const Problem& problem, const Pipeline& pipeline, int64_t lanes);

  const KeyChunks& chunks() const { return chunks_; }
  int64_t chunks_per_plane() const { return chunks_per_plane_; }
  int64_t padded_width() const { return padded_width_; }
  int64_t padded_v_dim() const { return padded_v_dim_; }
  size_t call_scratch_bytes() const;
  size_t worker_scratch_bytes() const;

  // `memory` has call_scratch_bytes().
  SoftmaxKeyPlane PlaneOf(std::byte* memory, int64_t plane, int64_t lane) const;
  void Prepare(const KernelCall& call, std::byte* memory, int64_t job,
               Arena& arena) const;
  // Adds the lanes up, writes dK and dV of a chunk, and adds what the key's
  // side has parameters.
  void Finish(const KernelCall& call, std::byte* memory, int64_t job,
              const GradientSink& sink, Arena& arena) const;

 private:
  // Of one panel.
  struct Rows {
    float* rows = nullptr;
    double* kept = nullptr;      // see RowsRecord
    double* prepared = nullptr;  // [keys, width]
    double* compared = nullptr;  // gradient of the same
    double* gradient = nullptr;  // [keys, d_k]
  };
  std::array<FloatJobArray, 1> FloatsOf(Rows& rows) const;
  std::array<JobArray, 4> DoublesOf(Rows& rows) const;

  int64_t planes() const { return shape_.batch * shape_.kv_heads; }
  void PreparePanel(const KernelCall& call, const RowSpan& span,
                    const SoftmaxKeyPlane& plane, const Rows& rows) const;
  ConstMatrix LoadKeys(const KernelCall& call, const RowSpan& span,
                       const Rows& rows) const;
  void AddLanes(std::byte* memory, int64_t plane, const RowSpan& span) const;
  void FinishPanel(const KernelCall& call, const RowSpan& span,
                   const SoftmaxKeyPlane& plane, const Rows& rows,
                   const GradientSink& sink) const;
  void FinishRun(const KernelCall& call, const RowSpan& span,
                 const SoftmaxKeyPlane& plane, const Rows& rows,
                 const GradientSink& sink) const;

  AttentionShape shape_;
  const Pipeline& pipeline_;
  bool prepares_;
  int64_t width_;  // of a prepared row
  int64_t padded_width_;
  int64_t padded_v_dim_;
  int64_t panels_;  // of a plane
  int64_t lanes_;
  int64_t chunks_per_plane_;
  KeyChunks chunks_;
};

}  // namespace attn
