// A batch is its entries one by one, bit for bit.
#include "tests/engine/properties/one_member.h"
#include "tests/engine/properties/reshaped.h"

namespace attn::testing {
namespace {

// Dropout and programs may look at the batch index itself.
bool LooksAtBatchIndex(const oracle::VariantCase& call) {
  if (call.spec.dropout && !call.spec.dropout->keep) return true;
  for (const MaskSpec& mask : call.spec.masks) {
    const auto* program = std::get_if<ProgramMask>(&mask);
    if (program != nullptr &&
        program->program.source.find(" b)") != std::string::npos) {
      return true;
    }
  }
  return false;
}

VariantOutcome EntryOf(const VariantOutcome& all, int64_t batch, int64_t b) {
  const auto part = [&](const std::vector<double>& values) {
    const auto size = static_cast<int64_t>(values.size()) / batch;
    return std::vector<double>(values.begin() + b * size,
                               values.begin() + (b + 1) * size);
  };
  VariantOutcome one;
  one.output = part(all.output);
  one.masked_logits = part(all.masked_logits);
  one.weights = part(all.weights);
  one.lse = part(all.lse);
  one.lse_with_sink = part(all.lse_with_sink);
  one.state = part(all.state);
  const auto rows = static_cast<int64_t>(all.rows.size()) / batch;
  one.rows.assign(all.rows.begin() + b * rows,
                  all.rows.begin() + (b + 1) * rows);
  return one;
}

void ExpectBatchIsOneByOne(const oracle::VariantCase& call,
                           DType dtype = DType::kF32) {
  for (const std::string& kernel : AllKernelsOf(call, dtype)) {
    const VariantOutcome all = RunBy(kernel, call, dtype);
    for (int64_t b = 0; b < call.shape.batch; ++b) {
      const VariantOutcome one = RunBy(kernel, OneBatchEntry(call, b), dtype);
      EXPECT_TRUE(one.SameBits(EntryOf(all, call.shape.batch, b)))
          << kernel << ", entry " << b << " of " << Describe(call);
    }
  }
}

TEST(Batch, IsItsEntriesOneByOneForEveryMember) {
  oracle::Random random(331);
  ForEachMember([&](const std::string&, const auto& generator) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const AttentionShape& shape : kSmallShapes) {
        for (const bool ragged : {false, true}) {
          const auto call = CaseAround(random, generator, shape, ragged, dtype);
          if (!LooksAtBatchIndex(call)) ExpectBatchIsOneByOne(call, dtype);
        }
      }
    }
  });
}

TEST(Batch, IsItsEntriesOneByOneForRandomCombinations) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    oracle::Random random(33000 + seed);
    const auto call = oracle::RandomVariant(random, DType::kF32);
    if (!LooksAtBatchIndex(call)) ExpectBatchIsOneByOne(call);
  }
}

}  // namespace
}  // namespace attn::testing
