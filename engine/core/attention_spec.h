// What is to be computed: one attention variant as a value.
//
// The stages run in this order: transforms of q and k, score and scale,
// softcap, biases, score program, masks, temperature, sparsifiers, normalizer,
// weight program, dropout, times v, head gate.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "engine/core/bias_spec.h"
#include "engine/core/mask_spec.h"
#include "engine/core/normalizer_spec.h"
#include "engine/core/program_spec.h"
#include "engine/core/projection_spec.h"
#include "engine/core/quantization_spec.h"
#include "engine/core/score_spec.h"
#include "engine/core/sparsifier_spec.h"
#include "engine/core/spec_value.h"
#include "engine/core/transform_spec.h"

namespace attn {

// weights * keep / (1 - p). The keep mask is a pure function of (seed, batch,
// head, row, key) by Philox-4x32-10, or the BOOL input [B, Hq, Sq, Sk] `keep`.
// Reported weights are those before dropout. Srivastava et al. 2014.
struct DropoutSpec {
  double p = 0;
  uint64_t seed = 0;
  // Divides the kept weights by their sum in place of 1 - p.
  bool renormalize = false;
  std::optional<uint32_t> keep;
  auto Fields() const { return std::tie(p, seed, renormalize, keep); }
};

// Equal specs hash equal and may share a plan. Holds no tensors.
// A value; thread-compatible.
struct AttentionSpec {
  std::vector<TransformSpec> transforms;
  ScoreSpec score;
  // logits = softcap * tanh(logits / softcap); > 0.
  std::optional<double> softcap;
  std::vector<BiasSpec> biases;
  std::optional<ProgramSpec> score_program;
  std::vector<MaskSpec> masks;
  // Empty: off; one: for all heads; Hq: one for each query head. Each > 0.
  std::vector<double> temperatures;
  std::vector<SparsifierSpec> sparsifiers;
  NormalizerSpec normalizer;
  std::optional<ProgramSpec> weight_program;
  std::optional<DropoutSpec> dropout;
  // Multiplies each head's output: inputs[..] [Hq] or [B, Hq, Sq].
  std::optional<uint32_t> head_gate;
  // Set if and only if k and v are I8.
  std::optional<KvQuantization> kv_quantization;
  // Makes q, k and v of token rows, and one row of all heads.
  std::optional<ProjectionSpec> projections;

  auto Fields() const {
    return std::tie(transforms, score, softcap, biases, score_program, masks,
                    temperatures, sparsifiers, normalizer, weight_program,
                    dropout, head_gate, kv_quantization, projections);
  }
};

// Whether the values are made of the token rows of k: a call has no v.
inline bool MakesValues(const AttentionSpec& spec) {
  return spec.projections.has_value() && spec.projections->latent.has_value();
}

}  // namespace attn
