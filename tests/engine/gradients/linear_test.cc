// Gradients of linear attention: every rule, feature map and direction.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/gradients/gradient_call.h"

namespace attn::testing {
namespace {

constexpr CallSize kCausal = {2, 4, 2, 11, 11, 5, 4};
constexpr CallSize kBidirectional = {2, 4, 2, 6, 11, 5, 4};

struct Gates {
  bool decay_by_head = false;
  bool shared_beta = false;
};

LinearNormalizer MakeLinear(GradientCall& call, UpdateRule rule,
                            const Gates& gates) {
  const CallSize& s = call.size();
  LinearNormalizer linear;
  linear.update_rule = rule;
  linear.normalize = false;
  if (rule == UpdateRule::kGated || rule == UpdateRule::kGatedDelta) {
    const int64_t width =
        gates.decay_by_head ? s.kv_heads : s.kv_heads * s.k_dim;
    linear.decay = call.AddInput({s.batch, s.kv_length, width}, 0.4, -0.5);
  }
  if (rule == UpdateRule::kDelta || rule == UpdateRule::kGatedDelta) {
    const int64_t width = gates.shared_beta ? 1 : s.kv_heads;
    linear.beta = call.AddInput({s.batch, s.kv_length, width}, 0.3, 0.4);
  }
  return linear;
}

// As the loss has no lse: linear attention has none.
GradientCall& WithoutLse(GradientCall& call) {
  call.set_with_lse(false);
  return call;
}

TEST(LinearTest, EveryRuleHasItsExactGradient) {
  for (const UpdateRule rule : {UpdateRule::kLinear, UpdateRule::kGated,
                                UpdateRule::kDelta, UpdateRule::kGatedDelta}) {
    for (const bool bidirectional : {false, true}) {
      for (const bool by_head : {false, true}) {
        SCOPED_TRACE(static_cast<int>(rule) * 4 + bidirectional * 2 + by_head);
        GradientCall call(bidirectional ? kBidirectional : kCausal);
        LinearNormalizer linear =
            MakeLinear(WithoutLse(call), rule, {by_head, by_head});
        linear.bidirectional = bidirectional;
        linear.feature_map = FeatureMap::kIdentity;
        const CallSize& s = call.size();
        linear.state = call.AddInput({s.batch, s.kv_heads, s.k_dim, s.v_dim});
        call.spec().normalizer = linear;
        DotScore score;
        score.scale = 0.3;
        call.spec().score = score;
        call.ExpectExact();
      }
    }
  }
}

TEST(LinearTest, EveryFeatureMapHasItsExactGradient) {
  for (const FeatureMap map : {FeatureMap::kIdentity, FeatureMap::kEluPlusOne,
                               FeatureMap::kRelu, FeatureMap::kExp}) {
    for (const bool bidirectional : {false, true}) {
      for (const bool normalize : {false, true}) {
        // phi(q) . sum has either sign there, and no bound from below.
        if (normalize && map == FeatureMap::kIdentity) continue;
        SCOPED_TRACE(static_cast<int>(map) * 4 + bidirectional * 2 + normalize);
        GradientCall call(bidirectional ? kBidirectional : kCausal);
        LinearNormalizer linear;
        linear.feature_map = map;
        linear.bidirectional = bidirectional;
        linear.normalize = normalize;
        linear.eps = 0.3;
        WithoutLse(call).spec().normalizer = linear;
        DotScore score;
        score.scale = 0.0;
        if (!normalize) call.spec().score = score;
        call.ExpectExact();
      }
    }
  }
}

TEST(LinearTest, TransformsGateLearnedScaleAndLengthsAreExactToo) {
  for (const bool bidirectional : {false, true}) {
    SCOPED_TRACE(bidirectional);
    GradientCall call(bidirectional ? kBidirectional : kCausal);
    LinearNormalizer linear =
        MakeLinear(WithoutLse(call), UpdateRule::kGatedDelta, {});
    linear.bidirectional = bidirectional;
    linear.feature_map = FeatureMap::kIdentity;
    call.spec().normalizer = linear;
    const CallSize& s = call.size();
    DotScore score;
    score.scale = 0.5;
    score.learned_scale = LearnedScale{call.AddInput({s.q_heads}), 0.3};
    call.spec().score = score;
    NormTransform norm;
    norm.kind = NormKind::kL2;
    norm.query_weight = call.AddInput({s.q_heads, s.k_dim});
    norm.key_weight = call.AddInput({s.k_dim});
    call.spec().transforms = {norm};
    call.spec().head_gate = call.AddInput({s.batch, s.q_heads, s.q_length});
    call.args().q_lengths = {4, s.q_length};
    call.args().kv_lengths = {s.kv_length, 7};
    call.ExpectExact();
  }
}

// A causal row sees no later key; none sees a key beyond its length.
TEST(LinearTest, WhatNoRowSeesReachesNoGradient) {
  GradientCall call(kCausal);
  call.spec().normalizer =
      MakeLinear(WithoutLse(call), UpdateRule::kGatedDelta, {});
  call.args().q_lengths = {4, 11};
  call.args().kv_lengths = {11, 7};
  const Gradients clean = call.Backward();
  const CallSize& s = call.size();
  for (int64_t h = 0; h < s.kv_heads; ++h) {
    for (int64_t i = 0; i < s.k_dim; ++i) {
      call.k()[(h * s.kv_length + 5) * s.k_dim + i] =
          std::numeric_limits<double>::quiet_NaN();
      call.k()[((s.kv_heads + h) * s.kv_length + 8) * s.k_dim + i] =
          std::numeric_limits<double>::infinity();
    }
  }
  const Gradients poisoned = call.Backward();
  EXPECT_EQ(poisoned.q, clean.q);
  EXPECT_EQ(poisoned.k, clean.k);
  EXPECT_EQ(poisoned.v, clean.v);
  EXPECT_EQ(poisoned.inputs, clean.inputs);
}

TEST(LinearTest, BitsDoNotDependOnThreads) {
  GradientCall call({3, 8, 4, 37, 37, 5, 4});
  call.spec().normalizer =
      MakeLinear(WithoutLse(call), UpdateRule::kGatedDelta, {false, true});
  const Gradients one = call.Backward(1);
  const Gradients three = call.Backward(3);
  EXPECT_EQ(one.q, three.q);
  EXPECT_EQ(one.k, three.k);
  EXPECT_EQ(one.v, three.v);
  EXPECT_EQ(one.inputs, three.inputs);
}

TEST(LinearTest, WithoutKeysOnlyTheInitialStateHasAGradient) {
  GradientCall call({1, 2, 1, 3, 0, 5, 4});
  LinearNormalizer linear =
      MakeLinear(WithoutLse(call), UpdateRule::kLinear, {});
  linear.bidirectional = true;
  linear.state = call.AddInput({1, 1, 5, 4});
  call.spec().normalizer = linear;
  call.ExpectExact();
}

// The forward pass too.
TEST(LinearTest, EmptyShapesGiveZeros) {
  for (const CallSize& size :
       {CallSize{.batch = 0}, CallSize{.q_heads = 0},
        CallSize{.q_heads = 0, .kv_heads = 0}, CallSize{.q_length = 0},
        CallSize{.q_length = 0, .kv_length = 0}, CallSize{.k_dim = 0},
        CallSize{.v_dim = 0}}) {
    for (const bool bidirectional : {false, true}) {
      CallSize lengths = size;
      // Causal: as many queries as keys.
      if (!bidirectional) lengths.kv_length = size.q_length;
      SCOPED_TRACE(bidirectional);
      GradientCall call(lengths);
      LinearNormalizer linear =
          MakeLinear(WithoutLse(call), UpdateRule::kGatedDelta, {});
      linear.bidirectional = bidirectional;
      call.spec().normalizer = linear;
      EXPECT_EQ(call.Loss(), 0);
      const Gradients gradients = call.Backward();
      for (const auto* values : {&gradients.q, &gradients.k, &gradients.v}) {
        for (const double x : *values) EXPECT_EQ(x, 0);
      }
    }
  }
}

TEST(LinearTest, ACotangentOfTheLseIsRefused) {
  GradientCall call(kCausal);
  call.spec().normalizer = LinearNormalizer{};
  const absl::Status status = call.PlanBackward().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("d_lse"), std::string::npos) << status;
}

}  // namespace
}  // namespace attn::testing
