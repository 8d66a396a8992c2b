// Random variants, the same on every machine for the same seed: a generator for
// each member of each stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/testing/random_case.h"
#include "tests/testing/variants/variant_case.h"

namespace attn::oracle {

// Puts a member, with random parameters, into a case whose shape is set.
// Thread-safe: a row of a table.
struct MemberGenerator {
  // As the stage's table names it.
  const char* name;
  void (*add)(Random& random, VariantCase& call);
  // Makes a shape one that the member takes; null: it takes all.
  void (*fit)(AttentionShape& shape) = nullptr;
};

// The stages, as ListStages() names them, and "score_program",
// "weight_program", "dropout" and "head_gate".
struct StageGenerators {
  const char* stage;
  std::vector<MemberGenerator> members;
};
const std::vector<StageGenerators>& Generators();

// Null: there is none.
const MemberGenerator* FindGenerator(const std::string& stage,
                                     const std::string& member);

// Awkward extents; some are decoding, some have more rows than a block.
AttentionShape RandomShape(Random& random);
// A few heads over more keys than a tile of any kernel holds.
AttentionShape RandomLongShape(Random& random);
void AddLengths(Random& random, VariantCase& call);
// q, k and v, numbers that `dtype` holds exactly.
void FillTensors(Random& random, VariantCase& call, DType dtype);

// A float parameter, F32, of normal numbers times `size`.
Parameter NormalParameter(Random& random, std::vector<int64_t> shape,
                          double size = 1);
// Bottom right or top left; or left open, where both agree.
Alignment RandomAlignment(Random& random, const VariantCase& call);

// Stages taken at random.
VariantCase RandomVariant(Random& random, DType dtype);

// The parts of Generators(), one file each.
std::vector<MemberGenerator> ScoreGenerators();
std::vector<MemberGenerator> TransformGenerators();
std::vector<MemberGenerator> BiasGenerators();
std::vector<MemberGenerator> MaskGenerators();
std::vector<MemberGenerator> SparsifierGenerators();
std::vector<MemberGenerator> NormalizerGenerators();

}  // namespace attn::oracle
