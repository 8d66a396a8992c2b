// Every member of every table, by every kernel that computes it, against its
// formula.
#include "tests/engine/properties/one_member.h"

namespace attn::testing {
namespace {

// Kernels agree with the oracle, in the type and at its precision, whether they
// are asked for rows of scores or not.
void ExpectAgreement(const oracle::VariantCase& call, DType dtype,
                     Closeness closeness) {
  const oracle::VariantResult want = oracle::AttendVariant(call);
  const VariantRun run(call, dtype);
  for (const Rows rows : {Rows::kAskedFor, Rows::kNot}) {
    for (const std::string& kernel : KernelsOf(call, dtype, rows)) {
      EXPECT_TRUE(Agrees(run.Run(kernel, rows), want, call, closeness))
          << kernel << (rows == Rows::kNot ? " without rows" : "") << " for "
          << Describe(call);
    }
  }
}

TEST(EveryMember, AgreesWithItsFormulaInFloat) {
  oracle::Random random(301);
  ForEachMember([&](const std::string&, const auto& generator) {
    for (int i = 0; i < 6; ++i) {
      const auto shape = oracle::RandomShape(random);
      ExpectAgreement(CaseAround(random, generator, shape, i % 2 == 1),
                      DType::kF32, {});
    }
  });
}

TEST(EveryMember, AgreesWithItsFormulaOverManyTilesOfKeys) {
  oracle::Random random(305);
  ForEachMember([&](const std::string&, const auto& generator) {
    for (int i = 0; i < 3; ++i) {
      const auto shape = oracle::RandomLongShape(random);
      ExpectAgreement(CaseAround(random, generator, shape, i % 2 == 1),
                      DType::kF32, {});
    }
  });
}

// More keys than one part of a decoding row has.
TEST(EveryMember, AgreesWithItsFormulaOverManyPartsOfKeys) {
  oracle::Random random(306);
  const AttentionShape shape = {.batch = 1,
                                .q_heads = 2,
                                .kv_heads = 1,
                                .q_length = 1,
                                .kv_length = 4500,
                                .q_dim = 4,
                                .k_dim = 4,
                                .v_dim = 3};
  ForEachMember([&](const std::string&, const auto& generator) {
    ExpectAgreement(CaseAround(random, generator, shape), DType::kF32, {});
  });
}

TEST(EveryMember, AgreesWithItsFormulaInDoubleToTheLastDigits) {
  oracle::Random random(302);
  ForEachMember([&](const std::string&, const auto& generator) {
    for (int i = 0; i < 3; ++i) {
      const auto shape = oracle::RandomShape(random);
      ExpectAgreement(
          CaseAround(random, generator, shape, i % 2 == 1, DType::kF64),
          DType::kF64, {.tolerance = 1e-10, .margin = 1e-9});
    }
  });
}

// The inputs are what the type holds, so that only the output is rounded.
TEST(EveryMember, AgreesWithItsFormulaInTheNarrowTypes) {
  oracle::Random random(303);
  ForEachMember([&](const std::string&, const auto& generator) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const double digits = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
      const Closeness closeness = {.tolerance = digits, .margin = 1e-3};
      for (const AttentionShape& shape :
           {kSmallShape, kFewRowsShape, oracle::RandomLongShape(random)}) {
        ExpectAgreement(CaseAround(random, generator, shape, true, dtype),
                        dtype, closeness);
      }
    }
  });
}

// A row's margin may let it pass; not so many that nothing is compared.
TEST(EveryMember, FewRowsAreTooNearToAnotherChoiceToBeCompared) {
  oracle::Random random(304);
  size_t rows = 0;
  size_t passed_over = 0;
  ForEachMember([&](const std::string&, const auto& generator) {
    const auto want = oracle::AttendVariant(
        CaseAround(random, generator, kSmallShape, false));
    for (const double margin : want.margin) {
      ++rows;
      if (margin < Closeness{}.margin) ++passed_over;
    }
  });
  EXPECT_LT(passed_over, rows / 50);
}

// The generators know no member that the engine has not.
TEST(EveryMember, EachGeneratorBelongsToAMember) {
  for (const oracle::StageGenerators& stage : oracle::Generators()) {
    for (const StageInfo& known : ListStages()) {
      if (known.stage != stage.stage) continue;
      EXPECT_EQ(known.members.size(), stage.members.size()) << stage.stage;
    }
  }
}

}  // namespace
}  // namespace attn::testing
