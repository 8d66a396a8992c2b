#include "server/rpc/variant_name.h"

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;

TEST(VariantName, NamesTheMainStages) {
  AttentionSpec spec;
  EXPECT_EQ(VariantName(spec), "dot_softmax");
  spec.masks.emplace_back(CausalMask{});
  EXPECT_EQ(VariantName(spec), "dot_softmax_causal");
  spec.biases.emplace_back(AlibiBias{});
  EXPECT_EQ(VariantName(spec), "dot_softmax_alibi_causal");
}

TEST(VariantName, TheOrderOfStagesDoesNotMatter) {
  AttentionSpec a;
  a.masks = {DenseMask{0}, WindowMask{}, CausalMask{}};
  a.biases = {DenseBias{0}, AlibiBias{}};
  AttentionSpec b;
  b.masks = {CausalMask{}, DenseMask{0}, WindowMask{}};
  b.biases = {AlibiBias{}, DenseBias{0}};
  EXPECT_EQ(VariantName(a), "dot_softmax_alibi_window");
  EXPECT_EQ(VariantName(a), VariantName(b));
}

TEST(VariantName, ParametersDoNotMatter) {
  AttentionSpec spec;
  spec.score = DotScore{.scale = 3.0, .learned_scale = std::nullopt};
  spec.softcap = 7;
  spec.temperatures = {1, 2, 3};
  EXPECT_EQ(VariantName(spec), "dot_softmax");
}

// The series that a server has before its first call.
TEST(VariantName, TheCommonNamesAreFewAndAnnounced) {
  // A third of what the label may take: the rest is for what really comes.
  constexpr size_t kLabelBudget = 8;
  const std::vector<std::string> common = CommonVariantNames();
  EXPECT_LE(common.size(), kLabelBudget);
  EXPECT_THAT(AllVariantNames(), IsSupersetOf(common));
  EXPECT_THAT(common, Contains("dot_softmax"));
  EXPECT_THAT(common, Contains("dot_softmax_causal"));
}

TEST(VariantName, EveryNameIsAnnounced) {
  const std::vector<std::string> all = AllVariantNames();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  for (const BiasSpec& bias : {BiasSpec(DenseBias{}), BiasSpec(AlibiBias{})}) {
    for (const MaskSpec& mask : {MaskSpec(CausalMask{}), MaskSpec(WindowMask{}),
                                 MaskSpec(DenseMask{})}) {
      AttentionSpec spec;
      EXPECT_THAT(all, Contains(VariantName(spec)));
      spec.biases = {bias};
      EXPECT_THAT(all, Contains(VariantName(spec)));
      spec.masks = {mask};
      EXPECT_THAT(all, Contains(VariantName(spec)));
    }
  }
}

}  // namespace
}  // namespace attn
