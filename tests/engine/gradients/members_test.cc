// Every member of every stage that has a gradient, against central differences.
// A new member without a case here fails.
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/biases/bias.h"
#include "engine/normalizers/normalizer.h"
#include "engine/scores/score.h"
#include "engine/sparsifiers/sparsifier.h"
#include "engine/transforms/transform.h"
#include "gtest/gtest.h"
#include "tests/engine/gradients/gradient_call.h"

namespace attn::testing {
namespace {

using Case = std::function<void(GradientCall&)>;
using Cases = std::map<std::string, std::vector<Case>>;

template <typename Entry>
void CheckMembers(absl::Span<const Entry> table, const Cases& cases,
                  const CallSize& size = {}) {
  for (const Entry& entry : table) {
    SCOPED_TRACE(entry.name);
    const auto found = cases.find(entry.name);
    ASSERT_NE(found, cases.end()) << "a member without a case";
    for (size_t i = 0; i < found->second.size(); ++i) {
      SCOPED_TRACE(i);
      GradientCall call(size);
      found->second[i](call);
      call.ExpectExact();
    }
  }
}

int64_t Heads(GradientCall& call) { return call.size().q_heads; }
int64_t Dim(GradientCall& call) { return call.size().k_dim; }

void AddLearnedDot(GradientCall& call) {
  DotScore score;
  score.scale = 0.4;
  score.learned_scale = LearnedScale{call.AddInput({Heads(call)}), 0.2};
  call.spec().score = score;
}

void AddAdditive(GradientCall& call, Activation activation, bool by_head) {
  constexpr int64_t kHidden = 5;
  AdditiveScore score;
  const int64_t heads = Heads(call);
  const int64_t kv_heads = call.size().kv_heads;
  const Shape query =
      by_head ? Shape{heads, Dim(call), kHidden} : Shape{Dim(call), kHidden};
  const Shape key =
      by_head ? Shape{kv_heads, Dim(call), kHidden} : Shape{Dim(call), kHidden};
  const Shape vector = by_head ? Shape{heads, kHidden} : Shape{kHidden};
  score.query_weight = call.AddInput(query, 0.5);
  score.key_weight = call.AddInput(key, 0.5);
  score.query_bias = call.AddInput(vector);
  score.v = call.AddInput(vector);
  score.activation = activation;
  score.bias = 0.3;
  call.spec().score = score;
}

Cases ScoreCases() {
  Cases cases;
  cases["dot"] = {[](GradientCall& call) {
                    call.spec().score = DotScore{0.7, std::nullopt};
                  },
                  [](GradientCall& call) {
                    call.spec().score = DotScore{0.0, std::nullopt};
                  },
                  AddLearnedDot};
  cases["bilinear"] = {
      [](GradientCall& call) {
        call.spec().score =
            BilinearScore{call.AddInput({Dim(call), Dim(call)}, 0.5), 0.2, 0.6};
      },
      [](GradientCall& call) {
        call.spec().score = BilinearScore{
            call.AddInput({Heads(call), Dim(call), Dim(call)}, 0.5), 0.2, 0.0};
      }};
  for (const Activation activation :
       {Activation::kTanh, Activation::kRelu, Activation::kSigmoid,
        Activation::kGelu, Activation::kIdentity}) {
    cases["additive"].push_back([activation](GradientCall& call) {
      AddAdditive(call, activation, activation != Activation::kTanh);
    });
  }
  cases["concat"] = {[](GradientCall& call) {
    call.spec().score = ConcatScore{call.AddInput({2 * Dim(call), 4}, 0.5),
                                    call.AddInput({4}), Activation::kTanh};
  }};
  cases["trilinear"] = {[](GradientCall& call) {
    call.spec().score =
        TrilinearScore{call.AddInput({3 * Dim(call)}, 0.5), 0.1};
  }};
  cases["cosine"] = {
      [](GradientCall& call) {
        call.spec().score = CosineScore{3.0, std::nullopt, 1e-12};
      },
      [](GradientCall& call) {
        CosineScore score;
        score.scale = 2.0;
        score.learned_scale = LearnedScale{call.AddInput({1}), std::nullopt};
        call.spec().score = score;
      }};
  for (const Distance distance :
       {Distance::kSquaredL2, Distance::kL1, Distance::kL2}) {
    cases["distance"].push_back([distance](GradientCall& call) {
      call.spec().score = DistanceScore{distance, 0.3};
    });
  }
  return cases;
}

TEST(MembersTest, EveryScoreHasItsExactGradient) {
  CheckMembers(ScoreTable(), ScoreCases());
}

Cases TransformCases() {
  Cases cases;
  cases["rotary"] = {[](GradientCall& call) {
                       RotaryTransform rotary;
                       rotary.rotary_dim = 6;
                       rotary.query_offset = 12;
                       call.spec().transforms = {rotary};
                     },
                     [](GradientCall& call) {
                       RotaryTransform rotary;
                       rotary.layout = RotaryLayout::kHalfSplit;
                       rotary.rotary_dim = 4;
                       rotary.cos = call.AddInput({17, 2});
                       rotary.sin = call.AddInput({17, 2});
                       call.spec().transforms = {rotary};
                     },
                     [](GradientCall& call) {
                       RotaryTransform rotary;
                       rotary.rotary_dim = 4;
                       rotary.target = TransformTarget::kQuery;
                       rotary.cos = call.AddInput({2, 5, 2});
                       rotary.sin = call.AddInput({2, 5, 2});
                       call.spec().transforms = {rotary};
                     }};
  for (const NormKind kind : {NormKind::kL2, NormKind::kRms}) {
    cases["norm"].push_back([kind](GradientCall& call) {
      NormTransform norm;
      norm.kind = kind;
      norm.query_weight = call.AddInput({Dim(call)});
      norm.key_weight = call.AddInput({call.size().kv_heads, Dim(call)});
      // With another transform behind it, and scores that prepare.
      RotaryTransform rotary;
      rotary.rotary_dim = 6;
      call.spec().transforms = {norm, rotary};
      call.spec().score = CosineScore{2.0, std::nullopt, 1e-12};
    });
  }
  return cases;
}

TEST(MembersTest, EveryTransformHasItsExactGradient) {
  CheckMembers(TransformTable(), TransformCases());
}

Cases BiasCases() {
  Cases cases;
  for (const Shape& shape : {Shape{2, 4, 12, 12}, Shape{4, 1, 12}, Shape{12, 1},
                             Shape{1}, Shape{2, 1, 1, 12}}) {
    cases["dense"].push_back([shape](GradientCall& call) {
      call.spec().biases = {DenseBias{call.AddInput(shape)}};
    });
  }
  cases["alibi"] = {
      [](GradientCall& call) { call.spec().biases = {AlibiBias{}}; }};
  cases["relative_table"] = {
      [](GradientCall& call) {
        call.spec().biases = {
            RelativeTableBias{call.AddInput({Heads(call), 9})}};
      },
      [](GradientCall& call) {
        call.spec().biases = {RelativeTableBias{call.AddInput({1, 7})}};
      }};
  for (const bool bidirectional : {true, false}) {
    cases["t5"].push_back([bidirectional](GradientCall& call) {
      call.spec().biases = {
          T5Bias{call.AddInput({8, Heads(call)}), bidirectional, 12}};
    });
  }
  cases["continuous_position"] = {[](GradientCall& call) {
    ContinuousPositionBias bias;
    bias.height = 3;
    bias.width = 4;
    bias.hidden_weight = call.AddInput({2, 6});
    bias.hidden_bias = call.AddInput({6});
    bias.output_weight = call.AddInput({6, Heads(call)}, 0.3);
    call.spec().biases = {bias};
  }};
  cases["constant"] = {[](GradientCall& call) {
    // Softmax alone does not feel a constant.
    call.spec().normalizer = SigmoidNormalizer{};
    call.spec().biases = {ConstantBias{call.AddInput({Heads(call)})}};
  }};
  return cases;
}

TEST(MembersTest, EveryBiasHasItsExactGradient) {
  CheckMembers(BiasTable(), BiasCases(), {.q_length = 12, .kv_length = 12});
}

Cases SparsifierCases() {
  Cases cases;
  cases["top_k"] = {[](GradientCall& call) {
    call.spec().sparsifiers = {TopKSparsifier{.k = 6}};
  }};
  cases["threshold"] = {[](GradientCall& call) {
    call.spec().sparsifiers = {
        ThresholdSparsifier{.min_logit = -0.3, .below_max = 1.5}};
  }};
  cases["top_p"] = {[](GradientCall& call) {
    call.spec().sparsifiers = {TopPSparsifier{.p = 0.7}};
  }};
  return cases;
}

TEST(MembersTest, WhatASparsifierKeepsHasItsExactGradient) {
  CheckMembers(SparsifierTable(), SparsifierCases());
}

Case With(const NormalizerSpec& spec) {
  return [spec](GradientCall& call) { call.spec().normalizer = spec; };
}

void AddLocal(GradientCall& call, double radius) {
  LocalNormalizer local;
  local.radius = radius;
  local.weight = call.AddInput({Dim(call), 3}, 0.5);
  local.v = call.AddInput({3});
  call.spec().normalizer = local;
}

Cases NormalizerCases() {
  Cases cases;
  cases["softmax"] = {With(SoftmaxNormalizer{}),
                      [](GradientCall& call) {
                        call.spec().normalizer =
                            SoftmaxNormalizer{call.AddInput({Heads(call)})};
                      },
                      [](GradientCall& call) {
                        call.spec().normalizer =
                            SoftmaxNormalizer{call.AddInput({Heads(call), 3})};
                      }};
  cases["softmax_plus"] = {With(SoftmaxPlusNormalizer{1.5})};
  cases["sparsemax"] = {With(SparsemaxNormalizer{})};
  cases["entmax"] = {
      With(EntmaxNormalizer{}), With(EntmaxNormalizer{1.3, std::nullopt}),
      With(EntmaxNormalizer{1.0, std::nullopt}), [](GradientCall& call) {
        call.spec().normalizer = EntmaxNormalizer{
            std::nullopt, call.AddInput({Heads(call)}, 0.4, 1.6)};
      }};
  cases["sigmoid"] = {With(SigmoidNormalizer{.bias = -1}),
                      With(SigmoidNormalizer{-1, Divisor::kVisibleKeys})};
  cases["relu"] = {With(ReluNormalizer{.power = 2}),
                   With(ReluNormalizer{1, Divisor::kVisibleKeys})};
  cases["divisive"] = {With(DivisiveNormalizer{.eps = 0.1})};
  cases["identity"] = {With(IdentityNormalizer{})};
  cases["local"] = {
      [](GradientCall& call) { AddLocal(call, 4.3); },
      [](GradientCall& call) {
        // q also goes through a transform, and some rows are empty.
        AddLocal(call, 40);
        RotaryTransform rotary;
        rotary.rotary_dim = 4;
        call.spec().transforms = {rotary};
        call.spec().masks = {WindowMask{2, 0, Alignment::kTopLeft}};
        call.args().kv_lengths = {1, 17};
      }};
  return cases;
}

TEST(MembersTest, EveryNormalizerHasItsExactGradientOrSaysWhyNot) {
  Cases cases = NormalizerCases();
  std::vector<NormalizerEntry> with_gradient;
  for (const NormalizerEntry& entry : NormalizerTable()) {
    SCOPED_TRACE(entry.name);
    // Linear attention has a test of its own: linear_test.cc.
    if (std::string(entry.name) == "linear") continue;
    if (cases.count(entry.name) > 0) {
      with_gradient.push_back(entry);
      continue;
    }
    ASSERT_STREQ(entry.name, "hard") << "a member without a case";
    GradientCall call({});
    call.spec().normalizer = HardNormalizer{};
    const absl::Status status = call.PlanBackward().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find("spec.normalizer"), std::string::npos)
        << status;
  }
  CheckMembers(absl::MakeConstSpan(with_gradient), cases);
}

}  // namespace
}  // namespace attn::testing
