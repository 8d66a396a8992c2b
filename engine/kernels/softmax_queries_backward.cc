// The part of softmax_queries.h that goes back, once there are weights.
#include <algorithm>
#include <cmath>

#include "engine/kernels/softmax_queries.h"
#include "engine/tile/row_math.h"
#include "engine/tile/softmax_gradient.h"

namespace attn {

// What whole rows have: gates, sinks, and the cotangents that dV takes. Returns
// whether some of those are infinite or NaN, and left out.
bool SoftmaxQueries::RowsBackward(const Job& job,
                                  const SharedGradients& shared) const {
  const Memory& memory = job.memory;
  const TileBounds bounds = job.TileOf(memory.weights).bounds;
  int64_t gaps = 0;
  for (int64_t r = 0; r < job.rows(); ++r) {
    const SoftmaxRow& row = memory.rows[r];
    const double product = row.factor() * memory.products[r];
    if (job.statistics[r].visible_keys > 0) {
      double* of_gate = pipeline_.head_gate().GradientAt(
          job.view, job.block, job.block.row_begin + r, shared.sink);
      if (of_gate != nullptr) *of_gate += product;
      rows_.SinksBackward(job.view, bounds, r, row, job.statistics[r],
                          memory.gates[r] * product, shared.sink);
    }
    const auto factor = static_cast<float>(row.factor() * memory.gates[r]);
    const float* of_output = job.d_output.data + r * job.d_output.stride;
    float* of_value = memory.d_value + r * padded_v_dim_;
    for (int64_t c = 0; c < shape_.v_dim; ++c) {
      const float value = of_output[c] * factor;
      of_value[c] = OrZero(value);
      gaps += std::isfinite(value) ? 0 : 1;
    }
    std::fill(of_value + shape_.v_dim, of_value + padded_v_dim_, 0.0F);
  }
  return gaps > 0;
}

// From dP to the gradient of the final logits and on to that of the scores.
void SoftmaxQueries::LogitsBackward(const Job& job, KeyRange keys,
                                    const SharedGradients& shared) const {
  const Memory& memory = job.memory;
  const Tile<float> weights = job.TileOf(memory.weights, keys);
  const Tile<float> gradient = job.TileOf(memory.gradient, keys);
  const int64_t count = gradient.bounds.keys;
  const double temperature = pipeline_.TemperatureOf(job.block.head);
  const auto cap = static_cast<float>(pipeline_.softcap());
  for (int64_t r = 0; r < job.rows(); ++r) {
    float* of_row = gradient.Row(r);
    const SoftmaxRow& row = memory.rows[r];
    const double factor = row.factor() * memory.gates[r];
    const double shift = (row.sum == 0 ? 0 : memory.lse[r] / row.sum) -
                         factor * row.factor() * memory.products[r];
    SoftmaxGradientRow(weights.Row(r), count,
                       static_cast<float>(factor / temperature),
                       static_cast<float>(shift / temperature), of_row);
    if (has_temperatures_) {
      const Tile<float> logits = job.TileOf(memory.logits, keys);
      shared.stages.temperature -= WeightedSum(of_row, logits.Row(r), count);
    }
    if (wants_biases_) {
      std::copy_n(of_row, count, memory.wide);
      Tile<double> wide{gradient.bounds, memory.wide, count};
      wide.bounds.row_begin += r;
      wide.bounds.rows = 1;
      pipeline_.BiasesBackward(job.view, wide, shared.sink);
    }
    if (cap > 0) {
      const Tile<float> scores = job.TileOf(memory.scores, keys);
      shared.stages.softcap +=
          SoftcapGradientRow(scores.Row(r), count, cap, of_row);
    }
  }
}

void SoftmaxQueries::AddKeyGradients(const Job& job, KeyRange keys) const {
  const Memory& memory = job.memory;
  const Tile<float> mixed = job.TileOf(
      pipeline_.dropout().on() ? memory.mixed : memory.weights, keys);
  const Tile<float> gradient = job.TileOf(memory.gradient, keys);
  const int64_t count = gradient.bounds.keys;
  MultiplyStrided({count, padded_v_dim_, job.rows()},
                  {mixed.data, 1, job.stride}, {memory.d_value, padded_v_dim_},
                  {job.keys.value_gradient + keys.begin * padded_v_dim_,
                   padded_v_dim_, 1, true});
  MultiplyStrided({count, padded_width_, job.rows()},
                  {gradient.data, 1, job.stride},
                  {memory.scaled_q, padded_width_},
                  {job.keys.key_gradient + keys.begin * padded_width_,
                   padded_width_, 1, true});
  if (!job.has_gaps) return;
  for (int64_t r = 0; r < job.rows(); ++r) AddNonFinite(job, mixed, r);
}

// What d_value left out of a row's cotangent, for the keys that the row sees.
void SoftmaxQueries::AddNonFinite(const Job& job, const Tile<float>& mixed,
                                  int64_t r) const {
  const float* of_output = job.d_output.data + r * job.d_output.stride;
  const auto factor =
      static_cast<float>(job.memory.rows[r].factor() * job.memory.gates[r]);
  for (int64_t j = 0; j < mixed.bounds.keys; ++j) {
    const float weight = mixed.Row(r)[j];
    if (weight == 0) continue;
    float* to =
        job.keys.value_gradient + (mixed.bounds.key_begin + j) * padded_v_dim_;
    for (int64_t c = 0; c < shape_.v_dim; ++c) {
      const float value = of_output[c] * factor;
      if (!std::isfinite(value)) to[c] += weight * value;
    }
  }
}

void SoftmaxQueries::AddQueryGradients(const Job& job, KeyRange keys) const {
  const Tile<float> gradient = job.TileOf(job.memory.gradient, keys);
  MultiplyStrided(
      {job.rows(), padded_width_, gradient.bounds.keys},
      {gradient.data, job.stride, 1},
      {job.keys.key_rows + keys.begin * padded_width_, padded_width_},
      {job.memory.q_gradient, padded_width_, 1,
       keys.begin > job.visible.begin});
}

// s = scale <q, k>: dq = scale ds k, and the scale's is the sum of <q, ds k>.
void SoftmaxQueries::ScaleQueryGradients(const Job& job,
                                         const SharedGradients& shared) const {
  double of_scale = 0;
  for (int64_t r = 0; r < job.rows(); ++r) {
    float* row = job.memory.q_gradient + r * padded_width_;
    if (job.statistics[r].visible_keys == 0) {
      std::fill_n(row, padded_width_, 0.0F);
      continue;
    }
    of_scale +=
        static_cast<double>(Dot(job.q.data + r * job.q.stride, row, width_));
    for (int64_t i = 0; i < width_; ++i) {
      row[i] = static_cast<float>(job.scale * static_cast<double>(row[i]));
    }
  }
  shared.stages.scale += pipeline_.score().ScaleBackward(
      job.view, job.block.head, of_scale, shared.sink);
}

}  // namespace attn
