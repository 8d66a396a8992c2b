// Random combinations of all stages: kernels and oracle agree.
#include "tests/engine/properties/one_member.h"

namespace attn::testing {
namespace {

constexpr int kShards = 4;
constexpr int kCasesOfAShard = 100;

class Combinations : public ::testing::TestWithParam<int> {};

TEST_P(Combinations, AreComputedAlikeByEveryKernelAndTheFormulas) {
  for (int i = 0; i < kCasesOfAShard; ++i) {
    const int seed = 1000 * GetParam() + i;
    oracle::Random random(static_cast<uint64_t>(seed));
    const bool wide = i % 4 == 0;
    const DType dtype = wide ? DType::kF64 : DType::kF32;
    const oracle::VariantCase call = oracle::RandomVariant(random, dtype);
    const oracle::VariantResult want = oracle::AttendVariant(call);
    const VariantRun run(call, dtype);
    const Closeness closeness =
        wide ? Closeness{.tolerance = 1e-9, .margin = 1e-8} : Closeness{};
    for (const Rows rows : {Rows::kAskedFor, Rows::kNot}) {
      for (const std::string& kernel : KernelsOf(call, dtype, rows)) {
        EXPECT_TRUE(Agrees(run.Run(kernel, rows), want, call, closeness))
            << kernel << (rows == Rows::kNot ? " without rows" : "")
            << ", seed " << seed << ", for " << Describe(call);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Combinations, ::testing::Range(0, kShards));

}  // namespace
}  // namespace attn::testing
