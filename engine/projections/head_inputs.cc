#include "engine/projections/head_inputs.h"

#include "engine/projections/copy_step.h"
#include "engine/projections/latent_step.h"
#include "engine/projections/linear_step.h"

namespace attn {
namespace {

// A part that is not projected stays where it is, unless it must be as wide as
// those that are.
RowSource PlanPart(const Problem& problem,
                   const std::optional<LinearLayer>& layer,
                   RowSource::Place place, const Shape& by_head,
                   ScratchLayout& layout, StepGroup& steps) {
  const RowSource source = RowSource::OfCall(place);
  const Problem heads = HeadProblem(problem);
  const bool widen = place == RowSource::Place::kQ
                         ? heads.dtype != problem.dtype
                         : heads.kv_dtype != problem.kv_dtype;
  if (!layer.has_value() && !widen) return source;
  const RowSource rows =
      layout.Rows(by_head[0], by_head[2], by_head[1] * by_head[3]);
  const RowSource split =
      SplitRows(rows, by_head[1], by_head[3], 0, by_head[3]);
  if (layer.has_value()) {
    steps.Add(MakeLinearStep(problem, {.source = source,
                                       .norm = std::nullopt,
                                       .normed = std::nullopt,
                                       .layer = *layer,
                                       .target = rows}));
  } else {
    steps.Add(MakeWidenStep(problem, source, split));
  }
  return split;
}

void PlanParts(const Problem& problem, ScratchLayout& layout,
               HeadInputs& inputs) {
  const ProjectionSpec& spec = *problem.spec.projections;
  const AttentionShape& s = problem.shape;
  StepGroup steps;
  inputs.q = PlanPart(problem, spec.query, RowSource::Place::kQ,
                      {s.batch, s.q_heads, s.q_length, s.q_dim}, layout, steps);
  inputs.k =
      PlanPart(problem, spec.key, RowSource::Place::kK,
               {s.batch, s.kv_heads, s.kv_length, s.k_dim}, layout, steps);
  inputs.v =
      PlanPart(problem, spec.value, RowSource::Place::kV,
               {s.batch, s.kv_heads, s.kv_length, s.v_dim}, layout, steps);
  if (!steps.empty()) inputs.phases.push_back(std::move(steps));
}

// A layer of latent attention and what goes into it.
struct LatentLayer {
  RowSource source;
  std::optional<uint32_t> norm;
  std::optional<RowSource> normed;
  LinearLayer layer;
  RowSource target;
};

std::unique_ptr<const ProjectionStep> MakeStep(const Problem& problem,
                                               const LatentLayer& layer) {
  std::optional<RowNorm> norm;
  if (layer.norm.has_value()) {
    norm = {*layer.norm, problem.spec.projections->latent->eps};
  }
  return MakeLinearStep(problem, {.source = layer.source,
                                  .norm = norm,
                                  .normed = layer.normed,
                                  .layer = layer.layer,
                                  .target = layer.target});
}

// Takes the rows of a layer's input again if they are normed and kept.
std::optional<RowSource> NormedRows(const RowSource& rows, bool keep,
                                    const std::optional<uint32_t>& norm,
                                    ScratchLayout& layout) {
  if (!keep || !norm.has_value()) return std::nullopt;
  return layout.Rows(rows.shape[0], rows.shape[2], rows.shape[3]);
}

void PlanLatentQueries(const Problem& problem, bool keep_normed,
                       ScratchLayout& layout, HeadInputs& inputs) {
  const LatentProjection& latent = *problem.spec.projections->latent;
  const AttentionShape& s = problem.shape;
  LatentRows& rows = inputs.latent;
  const RowSource tokens = RowSource::OfCall(RowSource::Place::kQ);
  rows.queries = layout.Rows(s.batch, s.q_length, s.q_heads * s.q_dim);
  if (!latent.query_down.has_value()) {
    inputs.phases[0].Add(MakeStep(problem, {tokens, std::nullopt, std::nullopt,
                                            latent.query_up, rows.queries}));
    return;
  }
  rows.low = layout.Rows(s.batch, s.q_length,
                         problem.inputs[latent.query_up.weight].shape[1]);
  rows.low_normed =
      NormedRows(*rows.low, keep_normed, latent.query_norm, layout);
  inputs.phases[0].Add(MakeStep(problem, {tokens, std::nullopt, std::nullopt,
                                          *latent.query_down, *rows.low}));
  inputs.phases[1].Add(
      MakeStep(problem, {*rows.low, latent.query_norm, rows.low_normed,
                         latent.query_up, rows.queries}));
}

void PlanLatent(const Problem& problem, bool keep_normed, ScratchLayout& layout,
                HeadInputs& inputs) {
  const LatentProjection& latent = *problem.spec.projections->latent;
  const AttentionShape& s = problem.shape;
  const int64_t rank = problem.inputs[latent.kv_up.weight].shape[1];
  const int64_t plain = latent.plain_dim;
  const int64_t expanded_head = plain + s.v_dim;
  LatentRows& rows = inputs.latent;
  inputs.phases.resize(3);
  PlanLatentQueries(problem, keep_normed, layout, inputs);
  rows.compressed =
      layout.Rows(s.batch, s.kv_length, rank + *latent.rotary.rotary_dim);
  rows.latent = SplitRows(rows.compressed, 1, 0, 0, rank);
  rows.latent_normed =
      NormedRows(rows.latent, keep_normed, latent.kv_norm, layout);
  rows.expanded = layout.Rows(s.batch, s.kv_length, s.q_heads * expanded_head);
  rows.keys = layout.Rows(s.batch, s.kv_length, s.q_heads * s.k_dim);
  inputs.phases[0].Add(
      MakeStep(problem, {RowSource::OfCall(RowSource::Place::kK), std::nullopt,
                         std::nullopt, latent.kv_down, rows.compressed}));
  inputs.phases[1].Add(
      MakeStep(problem, {rows.latent, latent.kv_norm, rows.latent_normed,
                         latent.kv_up, rows.expanded}));
  inputs.phases[2].Add(MakeLatentStep(
      problem, {rows.queries, rows.compressed, rows.expanded, rows.keys}));
  inputs.q = SplitRows(rows.queries, s.q_heads, s.q_dim, 0, s.q_dim);
  inputs.k = SplitRows(rows.keys, s.q_heads, s.k_dim, 0, s.k_dim);
  inputs.v = SplitRows(rows.expanded, s.q_heads, expanded_head, plain, s.v_dim);
}

}  // namespace

Problem HeadProblem(const Problem& problem) {
  Problem heads = problem;
  heads.spec.projections.reset();
  heads.outputs.head_output = false;
  const bool joins =
      problem.outputs.head_output ||
      (problem.spec.projections && problem.spec.projections->output);
  heads.outputs.output = problem.outputs.output || problem.outputs.head_output;
  if (joins) heads.output_dtype = ScratchLayout::WideType(problem);
  const auto& spec = problem.spec.projections;
  if (spec && (spec->query || spec->key || spec->value || spec->latent)) {
    heads.dtype = ScratchLayout::WideType(problem);
    // Integers stay as they came: their scales belong to them.
    if (!problem.spec.kv_quantization) heads.kv_dtype = heads.dtype;
  }
  return heads;
}

HeadInputs PlanHeadInputs(const Problem& problem, bool keep_normed,
                          ScratchLayout& layout) {
  HeadInputs inputs;
  const auto& spec = problem.spec.projections;
  if (!spec.has_value()) return inputs;
  if (spec->latent.has_value()) {
    PlanLatent(problem, keep_normed, layout, inputs);
  } else {
    PlanParts(problem, layout, inputs);
  }
  return inputs;
}

}  // namespace attn
