#include "engine/cache/step_stages.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TensorView InputOf(const Shape& shape) {
  return TensorView::Dense(nullptr, DType::kF32, shape);
}

AttentionSpec WithMask(const MaskSpec& mask) {
  AttentionSpec spec;
  spec.masks = {mask};
  return spec;
}

AttentionSpec WithBias(const BiasSpec& bias) {
  AttentionSpec spec;
  spec.biases = {bias};
  return spec;
}

AttentionSpec WithScoreProgram(const std::string& source) {
  AttentionSpec spec;
  spec.score_program = {source, {}};
  return spec;
}

ProgramMask MaskOf(const std::string& source) { return {{source, {}}}; }

struct StageRefusal {
  const char* name;
  AttentionSpec spec;
  // Input 0.
  Shape input;
  // How the message begins, and what stands in it.
  const char* field;
  const char* expected;
};

class StepStagesRefusal : public ::testing::TestWithParam<StageRefusal> {};

// Each of these gave other numbers in steps than in one call, or failed at a
// step far behind the first.
TEST_P(StepStagesRefusal, NamesWhatLooksAtRowsOfACall) {
  AttentionSpec spec = GetParam().spec;
  const std::vector<TensorView> inputs = {InputOf(GetParam().input)};
  const absl::Status status = FitToSteps(spec, inputs);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith(GetParam().field));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().expected));
}

AttentionSpec Nested() {
  AnyOfMask inner;
  inner.masks.emplace_back(MaskOf("k <= q"));
  AnyOfMask outer;
  outer.masks.emplace_back(CausalMask{});
  outer.masks.emplace_back(inner);
  return WithMask(outer);
}

AttentionSpec WithWeightProgram() {
  AttentionSpec spec;
  spec.weight_program = {"weight / Sq", {}};
  return spec;
}

AttentionSpec Dropped() {
  AttentionSpec spec;
  spec.dropout =
      DropoutSpec{.p = 0.5, .seed = 1, .renormalize = false, .keep = {}};
  return spec;
}

AttentionSpec Gated() {
  AttentionSpec spec;
  spec.head_gate = 0;
  return spec;
}

AttentionSpec Linear() {
  AttentionSpec spec;
  spec.normalizer = LinearNormalizer{};
  return spec;
}

AttentionSpec TurnedFrom(int64_t query_offset) {
  AttentionSpec spec;
  RotaryTransform rotary;
  rotary.query_offset = query_offset;
  spec.transforms = {rotary};
  return spec;
}

BlockSparseMask BlocksOf64() {
  return {.layout = 0, .q_block = 64, .kv_block = 64};
}

INSTANTIATE_TEST_SUITE_P(
    Specs, StepStagesRefusal,
    ::testing::Values(
        StageRefusal{"BigBird",
                     WithMask(BigBirdMask{}),
                     {},
                     "spec.masks[0].big_bird: got set",
                     "mask of positions"},
        StageRefusal{"BlockSparse",
                     WithMask(BlocksOf64()),
                     {1, 1},
                     "spec.masks[0].block_sparse: got set",
                     "mask of positions"},
        StageRefusal{"Segment",
                     WithMask(SegmentMask{}),
                     {1},
                     "spec.masks[0].segment: got set",
                     "t[p]"},
        StageRefusal{"MaskProgram",
                     WithMask(MaskOf("k <= q")),
                     {},
                     "spec.masks[0].program.program.source: got \"q\" at "
                     "column 6",
                     "expected p"},
        StageRefusal{"NestedProgram",
                     Nested(),
                     {},
                     "spec.masks[0].any_of.masks[1].any_of.masks[0].program."
                     "program.source: got \"q\"",
                     "expected p"},
        StageRefusal{"ScoreProgram",
                     WithScoreProgram("score*k/Sk"),
                     {},
                     "spec.score_program.source: got \"Sk\" at column 9",
                     "expected p, k or a number"},
        StageRefusal{"WeightProgram",
                     WithWeightProgram(),
                     {},
                     "spec.weight_program.source: got \"Sq\"",
                     "expected p, k or a number"},
        StageRefusal{
            "Dropout", Dropped(), {}, "spec.dropout: got set", "unset"},
        StageRefusal{"HeadGateByRow",
                     Gated(),
                     {1, 2, 1},
                     "spec.head_gate.input: got [1, 2, 1]",
                     "[q_heads]"},
        StageRefusal{"DenseMaskOfKeys",
                     WithMask(DenseMask{0}),
                     {1, 2},
                     "spec.masks[0].dense.tensor.input: got [1, 2]",
                     "extents of 1"},
        StageRefusal{"DenseBiasOfQueries",
                     WithBias(DenseBias{0}),
                     {2, 3, 1},
                     "spec.biases[0].dense.tensor.input: got [2, 3, 1]",
                     "extents of 1"},
        StageRefusal{"DenseBiasOfRankOne",
                     WithBias(DenseBias{0}),
                     {5},
                     "spec.biases[0].dense.tensor.input: got [5]",
                     "extents of 1"},
        StageRefusal{"ContinuousPosition",
                     WithBias(ContinuousPositionBias{}),
                     {},
                     "spec.biases[0].continuous_position: got set",
                     "relative_table"},
        StageRefusal{"Linear",
                     Linear(),
                     {},
                     "spec.normalizer.linear: got set",
                     "no state"},
        // 2^52 - 2^40 + 1: 2^40 tokens later no double holds the position.
        StageRefusal{"OffsetThatPositionsOutgrow",
                     TurnedFrom((int64_t{1} << 52) - (int64_t{1} << 40) + 1),
                     {},
                     "spec.transforms[0].rotary.query_offset: got",
                     "2^52 - 2^40"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(StepStagesTest, WhatBroadcastsOverQueriesAndKeysIsTaken) {
  for (const Shape& shape : {Shape{1}, Shape{1, 1}, Shape{2, 1, 1}}) {
    const std::vector<TensorView> inputs = {InputOf(shape)};
    AttentionSpec biased = WithBias(DenseBias{0});
    EXPECT_TRUE(FitToSteps(biased, inputs).ok()) << shape.ToString();
    AttentionSpec masked = WithMask(DenseMask{0});
    EXPECT_TRUE(FitToSteps(masked, inputs).ok()) << shape.ToString();
  }
}

// Names that begin or end as those of rows, and the names of positions.
TEST(StepStagesTest, ProgramsOfPositionsAreTaken) {
  for (const char* source :
       {"score - abs(p - k)", "sqrt(score)", "score * Sqk[h]", "score * q2[k]",
        "score + B + H + b + h", "score*1e2"}) {
    AttentionSpec spec = WithScoreProgram(source);
    EXPECT_TRUE(FitToSteps(spec, {}).ok()) << source;
  }
}

TEST(StepStagesTest, AGateOfHeadsIsTaken) {
  const std::vector<TensorView> inputs = {InputOf({4})};
  AttentionSpec spec = Gated();
  EXPECT_TRUE(FitToSteps(spec, inputs).ok());
}

}  // namespace
}  // namespace attn
