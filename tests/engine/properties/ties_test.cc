// Equal logits: who is chosen is a rule, not an accident.
#include <set>

#include "tests/engine/properties/one_member.h"

namespace attn::testing {
namespace {

// Scores that are all 0, and a mask that hides keys 0 and 3 of seven.
oracle::VariantCase AllAlike() {
  oracle::Random random(381);
  oracle::VariantCase call;
  call.shape = {.batch = 1,
                .q_heads = 2,
                .kv_heads = 1,
                .q_length = 3,
                .kv_length = 7,
                .q_dim = 4,
                .k_dim = 4,
                .v_dim = 2};
  oracle::FillTensors(random, call, DType::kF32);
  call.spec.score = DotScore{.scale = 0.0, .learned_scale = {}};
  call.spec.masks.emplace_back(
      DenseMask{call.Add({DType::kBool, {7}, {0, 1, 1, 0, 1, 1, 1}, false})});
  return call;
}

// The keys with a weight, the same in every row and by every kernel.
std::set<int64_t> ChosenKeys(const oracle::VariantCase& call) {
  std::set<int64_t> chosen;
  const std::vector<std::string> kernels = KernelsOf(call);
  for (const std::string& kernel : kernels) {
    const VariantOutcome got = VariantRun(call).Run(kernel);
    for (size_t row = 0; row < got.rows.size(); ++row) {
      std::set<int64_t> keys;
      for (int64_t key = 0; key < call.shape.kv_length; ++key) {
        if (got.weights[row * 7 + static_cast<size_t>(key)] != 0) {
          keys.insert(key);
        }
      }
      if (chosen.empty()) chosen = keys;
      EXPECT_EQ(keys, chosen) << kernel << ", row " << row;
    }
  }
  return chosen;
}

using Keys = std::set<int64_t>;

TEST(Ties, HardTakesTheLowestVisibleKey) {
  auto call = AllAlike();
  call.spec.normalizer = HardNormalizer{};
  EXPECT_EQ(ChosenKeys(call), Keys({1}));
}

TEST(Ties, TopKTakesTheLowestVisibleKeys) {
  auto call = AllAlike();
  call.spec.sparsifiers = {TopKSparsifier{3, TieRule::kLowestIndex}};
  EXPECT_EQ(ChosenKeys(call), Keys({1, 2, 4}));
}

TEST(Ties, TopKMayKeepAllThatEqualTheKth) {
  auto call = AllAlike();
  call.spec.sparsifiers = {TopKSparsifier{3, TieRule::kKeepAll}};
  EXPECT_EQ(ChosenKeys(call), Keys({1, 2, 4, 5, 6}));
}

TEST(Ties, MoreThanThereAreKeepsAll) {
  auto call = AllAlike();
  call.spec.sparsifiers = {TopKSparsifier{50, TieRule::kLowestIndex}};
  EXPECT_EQ(ChosenKeys(call), Keys({1, 2, 4, 5, 6}));
}

// Each of the five has 0.2: two make 0.4, three 0.6.
TEST(Ties, TopPTakesTheLowestKeysUntilTheirWeightsReachP) {
  auto call = AllAlike();
  call.spec.sparsifiers = {TopPSparsifier{0.5}};
  EXPECT_EQ(ChosenKeys(call), Keys({1, 2, 4}));
}

TEST(Ties, AThresholdKeepsWhatEqualsIt) {
  auto call = AllAlike();
  call.spec.sparsifiers = {ThresholdSparsifier{0.0, 0.0}};
  EXPECT_EQ(ChosenKeys(call), Keys({1, 2, 4, 5, 6}));
}

TEST(Ties, SparseSoftmaxesShareAlike) {
  for (const NormalizerSpec& normalizer :
       {NormalizerSpec(SparsemaxNormalizer{}),
        NormalizerSpec(EntmaxNormalizer{1.5, {}}),
        NormalizerSpec(SoftmaxNormalizer{})}) {
    auto call = AllAlike();
    call.spec.normalizer = normalizer;
    for (const std::string& kernel : KernelsOf(call)) {
      const VariantOutcome got = VariantRun(call).Run(kernel);
      for (size_t i = 0; i < got.weights.size(); ++i) {
        const bool hidden = i % 7 == 0 || i % 7 == 3;
        EXPECT_NEAR(got.weights[i], hidden ? 0 : 0.2, 1e-6) << kernel;
      }
      for (const RowStatistics& row : got.rows) EXPECT_EQ(row.top_key, 1);
    }
  }
}

}  // namespace
}  // namespace attn::testing
