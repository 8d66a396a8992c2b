// One step of linear attention's state, and the way back over it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/call_view.h"
#include "engine/core/gradient_sink.h"
#include "engine/core/normalizer_spec.h"
#include "engine/core/problem.h"
#include "engine/core/row_span.h"

namespace attn {

// Why a kernel of linear attention cannot compute the problem; empty: it can.
std::string WhyNotLinear(const Problem& problem);

// A KV head's running state, or its gradient.
struct LinearState {
  double* s = nullptr;    // [d_k, d_v]
  double* sum = nullptr;  // of phi(k), [d_k]
};

// One key on its way into the state.
struct LinearKey {
  int64_t batch = 0;
  int64_t kv_head = 0;
  int64_t key = 0;
  double* phi = nullptr;     // phi(k), [d_k]
  double* v = nullptr;       // [d_v]
  double* decay = nullptr;   // exp(decay), [d_k]
  double* change = nullptr;  // what is added along phi(k), [d_v]
  double beta = 1;
};

// Gradients of the state, and of a key's phi(k) and v.
struct LinearGradient {
  LinearState state;
  double* phi = nullptr;  // [d_k]
  double* v = nullptr;    // [d_v]
};

// S = diag(decay) S, then S += phi(k) c, with c = v or, with a delta,
// c = beta (v - phi(k) S) (Schlag et al. 2021; Yang et al. 2024). Thread-safe:
// const.
class LinearRule {
 public:
  LinearRule(const LinearNormalizer& spec, const AttentionShape& shape)
      : spec_(spec), shape_(shape) {}

  double Feature(double x) const;
  // Its derivative; 0 at relu's kink.
  double FeatureSlope(double x) const;

  // The state before the first key.
  void LoadState(const CallView& call, int64_t plane,
                 const LinearState& state) const;
  // Adds its gradient to the sink.
  void StateBackward(int64_t plane, const LinearState& gradient,
                     const GradientSink& sink) const;

  // Reads what the call has for the key: key.decay and key.beta.
  void LoadGates(const CallView& call, LinearKey* key) const;
  // The same of some keys: exp(decay) [count, d_k] and beta [count], each if
  // the call has it.
  void LoadGates(const CallView& call, const RowSpan& keys, double* decay,
                 double* beta) const;
  // Takes a key with phi, v and gates; leaves key.change.
  void Absorb(const LinearKey& key, const LinearState& state) const;
  // Turns gradient.state, after the key, in place, into that of the state
  // `before` it; sets the key's own and adds those of the gates.
  void AbsorbBackward(const CallView& call, const LinearKey& key,
                      const LinearState& before, const LinearGradient& gradient,
                      const GradientSink& sink) const;

 private:
  // Element of the decay tensor for one of the key's dimensions.
  int64_t DecayIndex(const CallView& call, const LinearKey& key,
                     int64_t i) const;
  int64_t BetaIndex(const CallView& call, const LinearKey& key) const;
  void DecayBackward(const CallView& call, const LinearKey& key,
                     const LinearState& before, const LinearState& gradient,
                     const GradientSink& sink) const;

  LinearNormalizer spec_;
  AttentionShape shape_;
};

}  // namespace attn
