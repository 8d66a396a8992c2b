#include "engine/projections/projection_cost.h"

#include <optional>
#include <vector>

namespace attn {
namespace {

// Rows of a layer's products, and how many products it has: on the way back
// the gradients of its rows and its weight too; the output layer is not applied
// again.
struct LayerRows {
  LinearLayer layer;
  int64_t rows;
  int products;
};

std::vector<LayerRows> LayersOf(const Problem& problem) {
  const ProjectionSpec& spec = *problem.spec.projections;
  const AttentionShape& s = problem.shape;
  const int64_t q_rows = s.batch * s.q_length;
  const int64_t kv_rows = s.batch * s.kv_length;
  std::vector<LayerRows> layers;
  const bool backward = problem.gradients.any();
  const auto add = [&](const std::optional<LinearLayer>& layer, int64_t rows) {
    if (layer.has_value()) layers.push_back({*layer, rows, backward ? 3 : 1});
  };
  add(spec.query, q_rows);
  add(spec.key, kv_rows);
  add(spec.value, kv_rows);
  if (spec.latent.has_value()) {
    add(spec.latent->query_down, q_rows);
    add(spec.latent->query_up, q_rows);
    add(spec.latent->kv_down, kv_rows);
    add(spec.latent->kv_up, kv_rows);
  }
  if (spec.output.has_value() && backward) {
    layers.push_back({*spec.output, q_rows, 2});
  } else if (problem.outputs.output) {
    add(spec.output, q_rows);
  }
  return layers;
}

}  // namespace

std::string DescribeProjections(const Problem& problem,
                                const std::string& stages) {
  if (!problem.spec.projections.has_value()) return stages;
  const ProjectionSpec& spec = *problem.spec.projections;
  std::string parts;
  const auto add = [&parts](bool there, const char* name) {
    if (!there) return;
    parts += parts.empty() ? "project " : ", ";
    parts += name;
  };
  add(spec.query.has_value(), "q");
  add(spec.key.has_value(), "k");
  add(spec.value.has_value(), "v");
  add(spec.latent.has_value(), "latent q, k, v");
  std::string text = parts.empty() ? stages : parts + " -> " + stages;
  if (spec.output.has_value()) text += " -> project output";
  return text;
}

double ProjectionFlops(const Problem& problem) {
  if (!problem.spec.projections.has_value()) return 0;
  double flops = 0;
  for (const LayerRows& layer : LayersOf(problem)) {
    const Shape& weight = problem.inputs[layer.layer.weight].shape;
    flops += 2.0 * layer.products * static_cast<double>(layer.rows) *
             static_cast<double>(weight[0]) * static_cast<double>(weight[1]);
  }
  return flops;
}

int64_t ProjectedTensorBytes(const Problem& problem) {
  if (!problem.spec.projections.has_value()) return 0;
  const ProjectionSpec& spec = *problem.spec.projections;
  const AttentionShape& s = problem.shape;
  const auto element = static_cast<int64_t>(SizeOf(problem.dtype));
  const auto result = static_cast<int64_t>(SizeOf(problem.output_dtype));
  const GradientSelection& wanted = problem.gradients;
  int64_t bytes = 0;
  const int64_t q_rows = s.batch * s.q_length;
  const int64_t kv_rows = s.batch * s.kv_length;
  const auto replace = [&](int64_t size,
                           const std::optional<LinearLayer>& layer,
                           int64_t rows, int64_t by_head) {
    if (!layer.has_value()) return;
    const int64_t in = problem.inputs[layer->weight].shape[1];
    bytes += size * rows * (in - by_head);
  };
  // Rows that come, and their gradients.
  const int64_t q_width = s.q_heads * s.q_dim;
  const int64_t k_width = s.kv_heads * s.k_dim;
  const int64_t v_width = s.kv_heads * s.v_dim;
  const int64_t of_q = wanted.q ? result : 0;
  const int64_t of_k = wanted.k ? result : 0;
  replace(element + of_q, spec.query, q_rows, q_width);
  replace(element + of_k, spec.key, kv_rows, k_width);
  replace(element + (wanted.v ? result : 0), spec.value, kv_rows, v_width);
  if (spec.latent.has_value()) {
    const std::optional<LinearLayer> up = spec.latent->query_up;
    replace(element + of_q,
            spec.latent->query_down ? spec.latent->query_down : up, q_rows,
            q_width);
    replace(element, spec.latent->kv_down, kv_rows, k_width + v_width);
    replace(of_k, spec.latent->kv_down, kv_rows, k_width);
  }
  const bool of_output = problem.outputs.output || wanted.from_output;
  if (of_output && spec.output.has_value()) {
    const int64_t out = problem.inputs[spec.output->weight].shape[0];
    bytes += result * q_rows * (out - s.q_heads * s.v_dim);
  }
  return bytes;
}

}  // namespace attn
