// Small cases around one member of a stage.
#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/variants/random_variant.h"
#include "tests/testing/variants/variant_run.h"

namespace attn::testing {

// Calls `visit(stage, generator)` for every member of the engine's tables. A
// member without a generator fails the test.
template <typename Visit>
void ForEachMember(Visit visit) {
  for (const StageInfo& stage : ListStages()) {
    for (const MemberInfo& member : stage.members) {
      const auto* generator = oracle::FindGenerator(stage.stage, member.name);
      if (generator == nullptr) {
        ADD_FAILURE() << stage.stage << " " << member.name
                      << " has no generator in tests/testing/variants";
        continue;
      }
      const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                         stage.stage + " " + member.name);
      visit(stage.stage, *generator);
    }
  }
}

// The members of one stage.
template <typename Visit>
void ForEachMemberOf(const std::string& wanted, Visit visit) {
  ForEachMember(
      [&](const std::string& stage, const oracle::MemberGenerator& generator) {
        if (stage == wanted) visit(generator);
      });
}

// A case of random tensors around the member.
inline oracle::VariantCase CaseAround(oracle::Random& random,
                                      const oracle::MemberGenerator& generator,
                                      AttentionShape shape, bool ragged = false,
                                      DType dtype = DType::kF32) {
  oracle::VariantCase call;
  if (generator.fit != nullptr) generator.fit(shape);
  call.shape = shape;
  if (ragged) oracle::AddLengths(random, call);
  oracle::FillTensors(random, call, dtype);
  generator.add(random, call);
  return call;
}

inline bool IsLinear(const oracle::VariantCase& call) {
  return std::holds_alternative<LinearNormalizer>(call.spec.normalizer);
}

// [2, 4/2, 7/9, 8/8/6]: small, with everything different that may be.
inline constexpr AttentionShape kSmallShape = {.batch = 2,
                                               .q_heads = 4,
                                               .kv_heads = 2,
                                               .q_length = 7,
                                               .kv_length = 9,
                                               .q_dim = 8,
                                               .k_dim = 8,
                                               .v_dim = 6};

// The same with a KV head for each query head: as few rows of one as decoding
// has.
inline constexpr AttentionShape kFewRowsShape = {.batch = 2,
                                                 .q_heads = 4,
                                                 .kv_heads = 4,
                                                 .q_length = 7,
                                                 .kv_length = 9,
                                                 .q_dim = 8,
                                                 .k_dim = 8,
                                                 .v_dim = 6};
inline constexpr AttentionShape kSmallShapes[] = {kSmallShape, kFewRowsShape};

// Every kernel that computes the call in `dtype`: asked for rows of scores
// where it has them, and only for what a call always gives where it has not.
inline std::vector<std::string> AllKernelsOf(const oracle::VariantCase& call,
                                             DType dtype = DType::kF32) {
  return KernelsOf(call, dtype, Rows::kWherePossible);
}
inline VariantOutcome RunBy(const std::string& kernel,
                            const oracle::VariantCase& call,
                            DType dtype = DType::kF32) {
  return VariantRun(call, dtype).Run(kernel, Rows::kWherePossible);
}

}  // namespace attn::testing
