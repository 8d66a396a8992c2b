#include "engine/projections/head_gradients.h"

#include "engine/projections/latent_gradient_step.h"
#include "engine/projections/norm_gradient_step.h"
#include "engine/projections/row_gradient_step.h"

namespace attn {
namespace {

// Of a whole call: what the functions below add to.
struct Planning {
  const Problem& problem;
  const HeadInputs& inputs;
  ScratchLayout& layout;
  LayerGradients& gradients;
  HeadGradients& result;
};

// One of q, k and v of a call without latent.
struct Part {
  RowSource::Place place;
  const std::optional<LinearLayer>& layer;
  bool wanted_rows;   // the call's own
  bool wanted_heads;  // for them or for the layer
  RowSource rows;     // by head
};

std::optional<RowSource> PlanPart(Planning& plan, const Part& part) {
  if (!part.wanted_heads) return std::nullopt;
  const RowSource tokens = RowSource::OfCall(part.place);
  if (!part.layer.has_value()) return tokens;
  const Shape& by_head = part.rows.shape;
  const RowSource of_rows =
      plan.layout.Rows(by_head[0], by_head[2], by_head[1] * by_head[3]);
  if (part.wanted_rows) {
    plan.result.phases[0].Add(MakeRowGradientStep(
        plan.problem, {of_rows, part.layer->weight, tokens}));
  }
  plan.gradients.AddLayer(*part.layer, tokens, of_rows);
  return SplitRows(of_rows, by_head[1], by_head[3], 0, by_head[3]);
}

void PlanParts(Planning& plan) {
  using Place = RowSource::Place;
  const ProjectionSpec& spec = *plan.problem.spec.projections;
  const GradientSelection& own = plan.problem.gradients;
  const WantedRows heads = WantedHeadGradients(plan.problem);
  plan.result.phases.resize(1);
  plan.result.q =
      PlanPart(plan, {Place::kQ, spec.query, own.q, heads.q, plan.inputs.q});
  plan.result.k =
      PlanPart(plan, {Place::kK, spec.key, own.k, heads.k, plan.inputs.k});
  plan.result.v =
      PlanPart(plan, {Place::kV, spec.value, own.v, heads.v, plan.inputs.v});
}

// A layer of latent attention, its input normed or not.
struct LatentLayer {
  LinearLayer layer;
  std::optional<uint32_t> norm;
  RowSource rows;                   // what it was applied to, before the norm
  std::optional<RowSource> normed;  // and after it
  RowSource of_result;
};

// To the gradient of the rows before the norm, `target`: in phase 1 and 2.
void PlanInner(Planning& plan, const LatentLayer& layer,
               const RowSource& target) {
  plan.gradients.AddLayer(layer.layer, layer.normed.value_or(layer.rows),
                          layer.of_result);
  if (!layer.norm.has_value()) {
    plan.result.phases[1].Add(MakeRowGradientStep(
        plan.problem, {layer.of_result, layer.layer.weight, target}));
    return;
  }
  const Shape& shape = layer.rows.shape;
  const RowSource of_normed = plan.layout.Rows(shape[0], shape[2], shape[3]);
  plan.result.phases[1].Add(MakeRowGradientStep(
      plan.problem, {layer.of_result, layer.layer.weight, of_normed}));
  const double eps = plan.problem.spec.projections->latent->eps;
  plan.result.phases[2].Add(MakeNormGradientStep(
      plan.problem, {layer.rows, {*layer.norm, eps}, of_normed, target}));
  plan.gradients.AddGain(*layer.norm, of_normed);
}

// From the gradient of a layer that token rows went through, in phase 3.
void PlanOuter(Planning& plan, const LinearLayer& layer, RowSource::Place place,
               bool wanted_rows, const RowSource& of_result) {
  const RowSource tokens = RowSource::OfCall(place);
  plan.gradients.AddLayer(layer, tokens, of_result);
  if (!wanted_rows) return;
  plan.result.phases[3].Add(
      MakeRowGradientStep(plan.problem, {of_result, layer.weight, tokens}));
}

void PlanLatentQueries(Planning& plan, const RowSource& of_queries) {
  const LatentProjection& latent = *plan.problem.spec.projections->latent;
  const LatentRows& rows = plan.inputs.latent;
  const bool wanted = plan.problem.gradients.q;
  if (!rows.low.has_value()) {
    PlanOuter(plan, latent.query_up, RowSource::Place::kQ, wanted, of_queries);
    return;
  }
  const Shape& low = rows.low->shape;
  const RowSource of_low = plan.layout.Rows(low[0], low[2], low[3]);
  PlanInner(plan,
            {latent.query_up, latent.query_norm, *rows.low, rows.low_normed,
             of_queries},
            of_low);
  PlanOuter(plan, *latent.query_down, RowSource::Place::kQ, wanted, of_low);
}

// All is formed, whatever is wanted: gradients of both sides come out of one
// step. Phase 0 divides those of the heads, 1 and 2 go back over the inner
// layers and their norms, 3 over the outer ones.
void PlanLatent(Planning& plan) {
  const LatentProjection& latent = *plan.problem.spec.projections->latent;
  const AttentionShape& s = plan.problem.shape;
  const LatentRows& rows = plan.inputs.latent;
  const auto like = [&plan](const RowSource& source) {
    return plan.layout.Rows(source.shape[0], source.shape[2], source.shape[3]);
  };
  plan.result.phases.resize(4);
  const RowSource of_queries = like(rows.queries);
  const RowSource of_keys = like(rows.keys);
  const RowSource of_expanded = like(rows.expanded);
  const RowSource of_compressed = like(rows.compressed);
  plan.result.phases[0].Add(MakeLatentGradientStep(
      plan.problem, {of_queries, of_keys, of_expanded, of_compressed}));
  PlanLatentQueries(plan, of_queries);
  const int64_t rank = rows.latent.shape[3];
  PlanInner(plan,
            {latent.kv_up, latent.kv_norm, rows.latent, rows.latent_normed,
             of_expanded},
            SplitRows(of_compressed, 1, 0, 0, rank));
  PlanOuter(plan, latent.kv_down, RowSource::Place::kK,
            plan.problem.gradients.k, of_compressed);
  const int64_t expanded_head = latent.plain_dim + s.v_dim;
  plan.result.q = SplitRows(of_queries, s.q_heads, s.q_dim, 0, s.q_dim);
  plan.result.k = SplitRows(of_keys, s.q_heads, s.k_dim, 0, s.k_dim);
  plan.result.v = SplitRows(of_expanded, s.q_heads, expanded_head,
                            latent.plain_dim, s.v_dim);
}

bool WantsLatent(const Problem& problem) {
  const LatentProjection& latent = *problem.spec.projections->latent;
  const GradientSelection& wanted = problem.gradients;
  return wanted.q || wanted.k || WantsLayer(wanted, latent.query_down) ||
         wanted.WantsInput(latent.query_norm) ||
         WantsLayer(wanted, latent.query_up) ||
         WantsLayer(wanted, latent.kv_down) ||
         wanted.WantsInput(latent.kv_norm) || WantsLayer(wanted, latent.kv_up);
}

}  // namespace

WantedRows WantedHeadGradients(const Problem& problem) {
  const ProjectionSpec& spec = *problem.spec.projections;
  if (spec.latent.has_value()) {
    const bool all = WantsLatent(problem);
    return {all, all, all};
  }
  const GradientSelection& own = problem.gradients;
  return {own.q || WantsLayer(own, spec.query),
          own.k || WantsLayer(own, spec.key),
          own.v || WantsLayer(own, spec.value)};
}

HeadGradients PlanHeadGradients(const Problem& problem,
                                const HeadInputs& inputs, ScratchLayout& layout,
                                LayerGradients& gradients) {
  HeadGradients result;
  Planning plan{problem, inputs, layout, gradients, result};
  if (!problem.spec.projections->latent.has_value()) {
    PlanParts(plan);
  } else if (WantedHeadGradients(problem).q) {
    PlanLatent(plan);
  }
  return result;
}

}  // namespace attn
