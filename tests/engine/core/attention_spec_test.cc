#include "engine/core/attention_spec.h"

#include <vector>

#include "absl/hash/hash.h"
#include "absl/hash/hash_testing.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

AttentionSpec With(void (*change)(AttentionSpec&)) {
  AttentionSpec spec;
  change(spec);
  return spec;
}

// Every member of every stage in two forms, the absent and the zero apart.
std::vector<AttentionSpec> DifferentSpecs() {
  return {
      AttentionSpec(),
      With([](AttentionSpec& s) {
        s.score = DotScore{.scale = 0.0, .learned_scale = {}};
      }),
      With([](AttentionSpec& s) {
        s.score = DotScore{.scale = 0.125, .learned_scale = {}};
      }),
      With([](AttentionSpec& s) { s.projections.emplace(); }),
      With([](AttentionSpec& s) { s.projections.emplace().q_heads = 2; }),
      With([](AttentionSpec& s) {
        s.projections.emplace().query =
            LinearLayer{.weight = 1, .bias = std::nullopt};
      }),
      With([](AttentionSpec& s) { s.projections.emplace().latent.emplace(); }),
      With([](AttentionSpec& s) { s.softcap = 0; }),
      With([](AttentionSpec& s) { s.softcap = 30; }),
      With([](AttentionSpec& s) { s.temperatures = {1}; }),
      With([](AttentionSpec& s) {
        s.temperatures = {1, 2};
      }),
      With([](AttentionSpec& s) {
        s.temperatures = {2, 1};
      }),
      With([](AttentionSpec& s) { s.biases = {DenseBias{0}}; }),
      With([](AttentionSpec& s) { s.biases = {DenseBias{1}}; }),
      With([](AttentionSpec& s) { s.biases = {AlibiBias{}}; }),
      With([](AttentionSpec& s) { s.biases = {AlibiBias{{0.5}}}; }),
      With([](AttentionSpec& s) {
        s.biases = {AlibiBias{}, DenseBias{0}};
      }),
      With([](AttentionSpec& s) {
        s.biases = {DenseBias{0}, AlibiBias{}};
      }),
      With([](AttentionSpec& s) { s.kv_quantization = KvQuantization{}; }),
      With([](AttentionSpec& s) {
        s.kv_quantization =
            KvQuantization{QuantizationGranularity::kPerHead, 0, 0};
      }),
      With([](AttentionSpec& s) { s.masks = {DenseMask{0}}; }),
      With([](AttentionSpec& s) { s.masks = {CausalMask{}}; }),
      With([](AttentionSpec& s) {
        s.masks = {CausalMask{Alignment::kTopLeft}};
      }),
      With([](AttentionSpec& s) { s.masks = {WindowMask{}}; }),
      With([](AttentionSpec& s) {
        s.masks = {WindowMask{0, {}, {}}};
      }),
      With([](AttentionSpec& s) {
        s.masks = {WindowMask{{}, 0, {}}};
      }),
      With([](AttentionSpec& s) {
        s.masks = {WindowMask{{}, 0, Alignment::kBottomRight}};
      }),
      With([](AttentionSpec& s) {
        s.masks = {CausalMask{}, CausalMask{}};
      }),
  };
}

TEST(AttentionSpecTest, EqualSpecsHashEqualAndOthersApart) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(DifferentSpecs()));
}

TEST(AttentionSpecTest, SpecsThatDifferInOneMemberAreNotEqual) {
  const std::vector<AttentionSpec> specs = DifferentSpecs();
  for (size_t i = 0; i < specs.size(); ++i) {
    for (size_t j = 0; j < specs.size(); ++j) {
      EXPECT_EQ(specs[i] == specs[j], i == j) << i << " and " << j;
    }
  }
}

TEST(AttentionSpecTest, ZeroesOfBothSignsAreOneSpec) {
  AttentionSpec plus;
  plus.score = DotScore{.scale = 0.0, .learned_scale = {}};
  AttentionSpec minus;
  minus.score = DotScore{.scale = -0.0, .learned_scale = {}};
  EXPECT_EQ(plus, minus);
  EXPECT_EQ(absl::HashOf(plus), absl::HashOf(minus));
}

}  // namespace
}  // namespace attn
