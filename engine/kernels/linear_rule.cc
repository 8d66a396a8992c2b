#include "engine/kernels/linear_rule.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "engine/tile/feature_rows.h"
#include "engine/tile/parameter_view.h"

namespace attn {

double LinearRule::Feature(double x) const {
  switch (spec_.feature_map) {
    case FeatureMap::kIdentity:
      return x;
    case FeatureMap::kEluPlusOne:
      return x > 0 ? x + 1 : std::exp(x);
    case FeatureMap::kRelu:
      return x > 0 ? x : 0;
    case FeatureMap::kExp:
      return std::exp(x);
  }
  return x;
}

double LinearRule::FeatureSlope(double x) const {
  switch (spec_.feature_map) {
    case FeatureMap::kIdentity:
      return 1;
    case FeatureMap::kEluPlusOne:
      return x > 0 ? 1 : std::exp(x);
    case FeatureMap::kRelu:
      return x > 0 ? 1 : 0;
    case FeatureMap::kExp:
      return std::exp(x);
  }
  return 1;
}

void LinearRule::LoadState(const CallView& call, int64_t plane,
                           const LinearState& state) const {
  const int64_t count = shape_.k_dim * shape_.v_dim;
  std::fill_n(state.sum, shape_.k_dim, 0.0);
  if (!spec_.state.has_value()) {
    std::fill_n(state.s, count, 0.0);
    return;
  }
  ParameterView(call.args.inputs[*spec_.state])
      .Load(plane * count, count, state.s);
}

void LinearRule::StateBackward(int64_t plane, const LinearState& gradient,
                               const GradientSink& sink) const {
  double* of_state = spec_.state ? sink.Of(*spec_.state) : nullptr;
  if (of_state == nullptr) return;
  const int64_t count = shape_.k_dim * shape_.v_dim;
  for (int64_t i = 0; i < count; ++i) {
    of_state[plane * count + i] += gradient.s[i];
  }
}

int64_t LinearRule::DecayIndex(const CallView& call, const LinearKey& key,
                               int64_t i) const {
  const int64_t width = call.args.inputs[*spec_.decay].shape[2];
  const bool by_head = width != shape_.kv_heads * shape_.k_dim;
  return (key.batch * shape_.kv_length + key.key) * width +
         (by_head ? key.kv_head : key.kv_head * shape_.k_dim + i);
}

int64_t LinearRule::BetaIndex(const CallView& call,
                              const LinearKey& key) const {
  const int64_t width = call.args.inputs[*spec_.beta].shape[2];
  return (key.batch * shape_.kv_length + key.key) * width +
         (width == 1 ? 0 : key.kv_head);
}

void LinearRule::LoadGates(const CallView& call, LinearKey* key) const {
  if (spec_.decay.has_value()) {
    const ParameterView decay(call.args.inputs[*spec_.decay]);
    for (int64_t i = 0; i < shape_.k_dim; ++i) {
      key->decay[i] = std::exp(decay.At(DecayIndex(call, *key, i)));
    }
  }
  if (spec_.beta.has_value()) {
    key->beta =
        ParameterView(call.args.inputs[*spec_.beta]).At(BetaIndex(call, *key));
  }
}

void LinearRule::LoadGates(const CallView& call, const RowSpan& keys,
                           double* decay, double* beta) const {
  LinearKey key{.batch = keys.batch, .kv_head = keys.head};
  const int64_t width = shape_.k_dim;
  for (int64_t r = 0; r < keys.count; ++r) {
    key.key = keys.begin + r;
    if (spec_.beta.has_value()) {
      beta[r] =
          ParameterView(call.args.inputs[*spec_.beta]).At(BetaIndex(call, key));
    }
    if (!spec_.decay.has_value() || width == 0) continue;
    const ParameterView view(call.args.inputs[*spec_.decay]);
    double* row = decay + r * width;
    const int64_t first = DecayIndex(call, key, 0);
    const bool by_head = DecayIndex(call, key, width - 1) == first;
    view.Load(first, by_head ? 1 : width, row);
    ExpRow(row, by_head ? 1 : width);
    if (by_head) std::fill_n(row, width, row[0]);
  }
}

void LinearRule::Absorb(const LinearKey& key, const LinearState& state) const {
  const int64_t width = shape_.v_dim;
  std::copy_n(key.v, width, key.change);
  for (int64_t i = 0; i < shape_.k_dim; ++i) {
    double* s = state.s + i * width;
    state.sum[i] += key.phi[i];
    for (int64_t c = 0; c < width && spec_.decay; ++c) s[c] *= key.decay[i];
    for (int64_t c = 0; c < width && spec_.beta; ++c) {
      key.change[c] -= key.phi[i] * s[c];
    }
  }
  for (int64_t c = 0; c < width && spec_.beta; ++c) key.change[c] *= key.beta;
  for (int64_t i = 0; i < shape_.k_dim; ++i) {
    double* s = state.s + i * width;
    for (int64_t c = 0; c < width; ++c) s[c] += key.phi[i] * key.change[c];
  }
}

// With D = dS after the key and S' = diag(decay) S: dc = phi D,
// dphi = D c + dsum, dv = beta dc, and with a delta dphi -= S' dv,
// D' = D - phi dv, dbeta = dc . (v - phi S').
void LinearRule::AbsorbBackward(const CallView& call, const LinearKey& key,
                                const LinearState& before,
                                const LinearGradient& gradient,
                                const GradientSink& sink) const {
  const int64_t width = shape_.v_dim;
  const auto decay = [&](int64_t i) {
    return spec_.decay.has_value() ? key.decay[i] : 1.0;
  };
  // key.change, before beta: v - phi S'.
  std::copy_n(key.v, width, key.change);
  std::fill_n(gradient.v, width, 0.0);
  for (int64_t i = 0; i < shape_.k_dim; ++i) {
    const double* d = gradient.state.s + i * width;
    const double* s = before.s + i * width;
    for (int64_t c = 0; c < width; ++c) {
      gradient.v[c] += key.phi[i] * d[c];
      if (spec_.beta) key.change[c] -= key.phi[i] * decay(i) * s[c];
    }
  }
  if (spec_.beta.has_value()) {
    double of_beta = 0;
    for (int64_t c = 0; c < width; ++c) {
      of_beta += gradient.v[c] * key.change[c];
      key.change[c] *= key.beta;
      gradient.v[c] *= key.beta;
    }
    double* slot = sink.Of(*spec_.beta);
    if (slot != nullptr) slot[BetaIndex(call, key)] += of_beta;
  }
  for (int64_t i = 0; i < shape_.k_dim; ++i) {
    double* d = gradient.state.s + i * width;
    const double* s = before.s + i * width;
    double sum = gradient.state.sum[i];
    for (int64_t c = 0; c < width; ++c) {
      sum += d[c] * key.change[c];
      if (!spec_.beta) continue;
      sum -= gradient.v[c] * decay(i) * s[c];
      d[c] -= key.phi[i] * gradient.v[c];
    }
    gradient.phi[i] = sum;
  }
  if (spec_.decay) DecayBackward(call, key, before, gradient.state, sink);
}

// S'_i = exp(g_i) S_i: dg_i = dS'_i . S'_i, dS_i = exp(g_i) dS'_i.
void LinearRule::DecayBackward(const CallView& call, const LinearKey& key,
                               const LinearState& before,
                               const LinearState& gradient,
                               const GradientSink& sink) const {
  double* of_decay = sink.Of(*spec_.decay);
  for (int64_t i = 0; i < shape_.k_dim; ++i) {
    double* d = gradient.s + i * shape_.v_dim;
    const double* s = before.s + i * shape_.v_dim;
    double sum = 0;
    for (int64_t c = 0; c < shape_.v_dim; ++c) {
      d[c] *= key.decay[i];
      sum += d[c] * s[c];
    }
    if (of_decay != nullptr) of_decay[DecayIndex(call, key, i)] += sum;
  }
}

std::string WhyNotLinear(const Problem& problem) {
  return std::holds_alternative<LinearNormalizer>(problem.spec.normalizer)
             ? ""
             : "the normalizer is not linear attention";
}

}  // namespace attn
