// K made ready for the way back, and what its gradients add up in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/core/gradient_sink.h"
#include "engine/kernels/job_memory.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"

namespace attn {

// One KV head's keys in the call's scratch, row-major by key.
struct KeyPlane {
  double* prepared = nullptr;        // [Sk, width]
  double* gradient = nullptr;        // [Sk, width], of the prepared rows
  double* value_gradient = nullptr;  // [Sk, d_v]
  // Whether some row sees the key. What no row sees is not read again: there
  // may be NaN in it, and 0 * NaN is NaN.
  uint8_t* seen = nullptr;  // [Sk]
};

// Prepare() for each chunk, then the jobs that add to a plane, one at a time,
// then Finish() for each chunk. Thread-safe: const; chunks are disjoint.
class BackwardKeys {
 public:
  // Borrows `pipeline`.
  BackwardKeys(const Problem& problem, const Pipeline& pipeline);

  const KeyChunks& chunks() const { return chunks_; }
  int64_t chunks_per_plane() const { return chunks_per_plane_; }
  size_t call_scratch_bytes() const;
  size_t worker_scratch_bytes() const;

  // `memory` has call_scratch_bytes().
  KeyPlane PlaneOf(std::byte* memory, int64_t plane) const;
  void Prepare(const KernelCall& call, std::byte* memory, int64_t job,
               Arena& arena) const;
  // Writes dK and dV of a chunk, and adds what the key's side has parameters.
  void Finish(const KernelCall& call, std::byte* memory, int64_t job,
              const GradientSink& sink, Arena& arena) const;

 private:
  // Of one chunk.
  struct Rows {
    double* kept = nullptr;
    double* prepared = nullptr;
    double* gradient = nullptr;
  };

  std::array<JobArray, 3> ArraysOf(Rows& rows) const;
  void FinishRun(const KernelCall& call, const RowSpan& span,
                 const KeyPlane& plane, const Rows& rows,
                 const GradientSink& sink) const;

  AttentionShape shape_;
  const Pipeline& pipeline_;
  int64_t width_;  // of a prepared row
  int64_t chunks_per_plane_;
  KeyChunks chunks_;
};

}  // namespace attn
