// Any variant of attention as its definition reads, one row at a time.
//
// The stages in SEMANTICS' order, each by its formula (formulas.h).
#pragma once

#include <cstdint>
#include <vector>

#include "tests/testing/variants/variant_case.h"

namespace attn::oracle {

// Row-major [B, Hq, Sq, ...]; rows beyond q_length are as empty ones.
struct VariantResult {
  std::vector<double> output;
  std::vector<double> logits;  // 0 beyond the lengths
  std::vector<double> masked_logits;
  std::vector<double> weights;
  std::vector<double> lse;
  std::vector<double> lse_with_sink;
  std::vector<double> entropy;
  std::vector<double> peak_weight;  // the largest weight above 0; or 0
  std::vector<int64_t> visible_keys;
  // Linear attention: [B, Hkv, d_k, d_v].
  std::vector<double> state;
  // How far the row was from another choice (of keys that a sparsifier keeps,
  // say): within rounding of 0 two answers are right.
  std::vector<double> margin;
  // Sum of |weight * v| of the row's widest column: what rounding is of.
  std::vector<double> mass;
};

VariantResult AttendVariant(const VariantCase& call);

// Whether every mask and length lets the query attend the key, and no dense
// bias excludes it.
bool Visible(const VariantCase& call, const Pair& at);

}  // namespace attn::oracle
