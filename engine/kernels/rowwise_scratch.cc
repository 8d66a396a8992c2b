#include "engine/kernels/rowwise_scratch.h"

#include "engine/kernels/job_memory.h"

namespace attn {

RowwiseScratchPlan::RowwiseScratchPlan(const Problem& problem,
                                       const Stages& stages, int64_t block_rows,
                                       int64_t score_stride)
    : shape_(problem.shape), rows_(block_rows) {
  const Pipeline& pipeline = stages.pipeline;
  const RowDescriber& describer = stages.describer;
  const auto needed = [](bool condition, int64_t elements) {
    return condition ? elements : 0;
  };
  prepared_ = needed(pipeline.prepares(Side::kQuery),
                     rows_ * pipeline.prepared_width());
  sparsified_ = needed(pipeline.has_sparsifiers(), shape_.kv_length);
  chunk_ = stages.keys.chunk_elements();
  scores_ = rows_ * score_stride;
  output_ = rows_ * stages.keys.value_width();
  // F16 calls keep the raw scores there while they are finished.
  final_logits_ =
      needed(describer.needs_logits() || problem.counts_f16_overflows, scores_);
  view_ = needed(describer.needs_view(), scores_);
  norms_ = needed(describer.needs_norms(), shape_.kv_length);
  cotangents_ = needed(describer.needs_cotangent(), (rows_ + 1) * shape_.v_dim);
}

template <typename Visit>
void RowwiseScratchPlan::ForEachPart(RowwiseScratch& scratch,
                                     Visit visit) const {
  visit(scratch.q, rows_ * shape_.q_dim);
  visit(scratch.prepared_q, prepared_);
  visit(scratch.row, sparsified_);
  visit(scratch.chunk, chunk_);
  visit(scratch.scores, scores_);
  visit(scratch.final_logits, final_logits_);
  visit(scratch.view, view_);
  visit(scratch.output, output_);
  visit(scratch.norms, norms_);
  visit(scratch.cotangents, cotangents_);
  visit(scratch.excluded, shape_.kv_length);
}

size_t RowwiseScratchPlan::bytes() const {
  RowwiseScratch scratch;
  return PartBytes([&](auto visit) { ForEachPart(scratch, visit); });
}

RowwiseScratch RowwiseScratchPlan::Allocate(Arena& arena) const {
  RowwiseScratch scratch;
  TakeParts([&](auto visit) { ForEachPart(scratch, visit); }, arena);
  return scratch;
}

}  // namespace attn
