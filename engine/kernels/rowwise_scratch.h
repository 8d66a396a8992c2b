// The memory of one job of the rowwise kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/pipeline.h"
#include "engine/kernels/prepared_keys.h"
#include "engine/kernels/row_describer.h"
#include "engine/runtime/arena.h"

namespace attn {

// Null, or of no use, where the problem does not need it.
struct RowwiseScratch {
  float* q = nullptr;
  float* prepared_q = nullptr;
  float* row = nullptr;  // for sparsifiers
  float* chunk = nullptr;
  float* scores = nullptr;
  float* final_logits = nullptr;  // if something asks for them afterwards
  float* view = nullptr;          // of the weights
  float* output = nullptr;
  double* norms = nullptr;  // of the values
  double* cotangents = nullptr;
  uint64_t* excluded = nullptr;
};

// How large each part is. Thread-safe: const.
class RowwiseScratchPlan {
 public:
  struct Stages {
    const Pipeline& pipeline;
    const PreparedKeys& keys;
    const RowDescriber& describer;
  };

  // For blocks of `block_rows` rows, whose scores have rows of `score_stride`.
  RowwiseScratchPlan(const Problem& problem, const Stages& stages,
                     int64_t block_rows, int64_t score_stride);

  // Arena bytes that Allocate() takes.
  size_t bytes() const;
  RowwiseScratch Allocate(Arena& arena) const;

 private:
  // visit(part, elements) for each part.
  template <typename Visit>
  void ForEachPart(RowwiseScratch& scratch, Visit visit) const;

  AttentionShape shape_;
  int64_t rows_;
  int64_t chunk_;
  int64_t scores_;
  int64_t output_;
  // Elements of parts that not every problem needs: 0 or what they take.
  int64_t prepared_;
  int64_t sparsified_;
  int64_t final_logits_;
  int64_t view_;
  int64_t norms_;
  int64_t cotangents_;
};

}  // namespace attn
