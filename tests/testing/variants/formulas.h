// One formula for each member of each stage, as the comments of
// engine/core/*_spec.h give it, on single rows and elements.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/testing/variants/variant_case.h"

namespace attn::oracle {

using Row = std::vector<double>;

enum class Whose : uint8_t { kQuery, kKey };

// transform_formula.cc: a row of q (`head` a query head) or k (a KV head).
Row Transform(const VariantCase& call, const TransformSpec& spec, Whose whose,
              const Pair& at, Row row);

// score_formula.cc: with its scale, from transformed rows.
double Score(const VariantCase& call, const Pair& at, const Row& q,
             const Row& k);
// The multiplier of a dot score.
double DotScale(const VariantCase& call, const DotScore& dot, int64_t head);

// bias_formula.cc; -infinity excludes.
double Bias(const VariantCase& call, const BiasSpec& spec, const Pair& at);

// mask_formula.cc
bool Allows(const VariantCase& call, const MaskSpec& spec, const Pair& at);

// program_formula.cc: the programs that tests know, by their source. `x` is
// the score or the weight; a mask's is not 0 where allowed.
double RunProgram(const VariantCase& call, const ProgramSpec& spec,
                  const Pair& at, double x);
// Sources of each kind. A source that reads a table reads `t`, [Hq].
const std::vector<std::string>& ScorePrograms();
const std::vector<std::string>& MaskPrograms();
const std::vector<std::string>& WeightPrograms();

// sparsifier_formula.cc: drops keys of a row of final logits, -infinity where
// excluded. Returns how far the nearest decision was from another.
double Sparsify(const SparsifierSpec& spec, Row& row);

// What a normalizer makes of a row.
struct Weights {
  Row weights;
  double lse = 0;
  double lse_with_sink = 0;
  // How far the nearest decision was from another; infinite if there is none.
  double margin = 0;
};

// normalizer_formula.cc: `q` is the query's row as it came.
Weights Normalize(const VariantCase& call, const Pair& at, const Row& q,
                  const Row& logits);

// linear_formula.cc: linear attention as a whole; rows of q and k transformed.
// Returns the output [B, Hq, Sq, d_v] and the last state [B, Hkv, d_k, d_v].
struct LinearResult {
  Row output;
  Row state;
};
LinearResult LinearAttention(const VariantCase& call, const std::vector<Row>& q,
                             const std::vector<Row>& k);

// philox_formula.cc: Philox-4x32-10 of Salmon et al. 2011, section 3.3.
std::array<uint32_t, 4> Philox(const std::array<uint32_t, 4>& counter,
                               uint64_t seed);

}  // namespace attn::oracle
