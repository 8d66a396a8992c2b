// One step before or after the heads: rows in, rows out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/problem.h"
#include "engine/core/tensor_view.h"
#include "engine/kernels/kernel.h"
#include "engine/runtime/arena.h"

namespace attn {

// Bound to a problem. Nothing here fails. Thread-safe: const.
class ProjectionStep {
 public:
  virtual ~ProjectionStep() = default;

  virtual int64_t job_count() const = 0;
  virtual size_t worker_scratch_bytes() const = 0;
  // Jobs of a step may run at once, in any order; each writes elements of its
  // own. `call` is that of the token rows.
  virtual void RunJob(const KernelCall& call, int64_t job,
                      Arena& arena) const = 0;
};

// Blocks of which the last may be short.
inline int64_t BlockCount(int64_t extent, int64_t block) {
  return (extent + block - 1) / block;
}

// Rows that lie in the call's q, k or v, in the gradient of its output (of a
// backward call's, or of args->d_output), or in its scratch: a tensor [B, H, S,
// width], H = 1 for token rows. A value.
struct RowSource {
  enum class Place : uint8_t { kQ, kK, kV, kOutputGradient, kScratch };
  Place place = Place::kScratch;
  // In scratch: where, and how the rows lie, in elements of `dtype`.
  size_t offset = 0;
  DType dtype = DType::kF32;
  Shape shape;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t row_stride = 0;

  // [B, H, S, width]; token rows [B, S, in] get H = 1.
  TensorView View(const KernelCall& call) const;
  // Where to write rows: in scratch, or to the gradient of q, k or v.
  MutableTensorView Target(const KernelCall& call) const;

  static RowSource OfCall(Place place) {
    RowSource source;
    source.place = place;
    return source;
  }
  // Whether they are rows of queries: those beyond q_lengths do not count.
  bool of_output_gradient() const { return place == Place::kOutputGradient; }
};

// How many rows a source has.
struct RowCount {
  int64_t batch = 0;
  int64_t length = 0;
};
RowCount CountRows(const Problem& problem, const RowSource& source);

}  // namespace attn
