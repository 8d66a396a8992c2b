#include "engine/cache/step_spec.h"

#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kStepHeads = 2;
constexpr int64_t kStepDim = 4;

absl::StatusOr<StepSpec> MakeSteps(AttentionSpec spec,
                                   DType dtype = DType::kF32,
                                   std::vector<TensorView> inputs = {}) {
  return StepSpec::Make(std::move(spec), std::move(inputs),
                        KvLayout{.kv_heads = kStepHeads,
                                 .k_dim = kStepDim,
                                 .v_dim = kStepDim,
                                 .dtype = dtype},
                        kStepHeads, kStepDim);
}

template <typename... Masks>
AttentionSpec Masked(Masks... masks) {
  AttentionSpec spec;
  (spec.masks.emplace_back(std::move(masks)), ...);
  return spec;
}

AttentionSpec Rotated(const RotaryTransform& rotary) {
  AttentionSpec spec = Masked(CausalMask{});
  spec.transforms = {rotary};
  return spec;
}

void ExpectRefused(const AttentionSpec& spec, const std::string& field,
                   const std::string& expected) {
  const absl::Status status = MakeSteps(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  EXPECT_THAT(std::string(status.message()), HasSubstr(expected));
}

Alignment AlignmentOf(const MaskSpec& mask) {
  return std::get<CausalMask>(static_cast<const MaskSpec::variant&>(mask))
      .alignment;
}

// Queries of a step are the last ones of its keys.
TEST(StepSpecTest, MasksThatLeaveItOpenAreAlignedAtTheBottomRight) {
  AnyOfMask either;
  either.masks.emplace_back(CausalMask{});
  const auto steps = MakeSteps(Masked(CausalMask{}, either));
  ASSERT_TRUE(steps.ok()) << steps.status();
  const auto& masks = steps->whole().masks;
  EXPECT_EQ(AlignmentOf(masks[0]), Alignment::kBottomRight);
  const auto& nested =
      std::get<AnyOfMask>(static_cast<const MaskSpec::variant&>(masks[1]));
  EXPECT_EQ(AlignmentOf(nested.masks[0]), Alignment::kBottomRight);
}

TEST(StepSpecTest, MasksAtTheTopLeftAreRefusedWhereverTheyStand) {
  ExpectRefused(Masked(CausalMask{Alignment::kTopLeft}),
                "spec.masks[0].causal.alignment", "BOTTOM_RIGHT");
  AnyOfMask either;
  either.masks.emplace_back(CausalMask{});
  either.masks.emplace_back(CausalMask{Alignment::kTopLeft});
  ExpectRefused(Masked(CausalMask{}, either),
                "spec.masks[1].any_of.masks[1].causal.alignment",
                "BOTTOM_RIGHT");
}

TEST(StepSpecTest, WhatKeepsKeysOtherwiseIsRefused) {
  AttentionSpec projected;
  projected.projections.emplace();
  ExpectRefused(projected, "spec.projections", "unset");
  AttentionSpec quantized;
  quantized.kv_quantization.emplace();
  ExpectRefused(quantized, "spec.kv_quantization", "kv_dtype");
  RotaryTransform rotary;
  rotary.key_positions = 0;
  ExpectRefused(Rotated(rotary), "spec.transforms[0].rotary.key_positions",
                "an offset");
}

struct WindowCase {
  const char* name;
  AttentionSpec spec;
  bool bounded;
  int64_t left;
  int64_t keep;
};

class StepSpecWindowTest : public ::testing::TestWithParam<WindowCase> {};

TEST_P(StepSpecWindowTest, SaysWhichKeysNobodySeesAgain) {
  const auto steps = MakeSteps(GetParam().spec);
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_EQ(steps->window().bounded, GetParam().bounded);
  EXPECT_EQ(steps->window().left, GetParam().left);
  EXPECT_EQ(steps->window().keep, GetParam().keep);
}

WindowMask Left(std::optional<int64_t> left) {
  WindowMask mask;
  mask.left = left;
  return mask;
}

StreamingMask Sinks(int64_t sinks, int64_t left) {
  StreamingMask mask;
  mask.sinks = sinks;
  mask.left = left;
  return mask;
}

AttentionSpec OneOf(const WindowMask& a, const WindowMask& b) {
  AnyOfMask either;
  either.masks.emplace_back(a);
  either.masks.emplace_back(b);
  return Masked(either);
}

INSTANTIATE_TEST_SUITE_P(
    Specs, StepSpecWindowTest,
    ::testing::Values(
        WindowCase{"Causal", Masked(CausalMask{}), false, 0, 0},
        WindowCase{"OpenWindow", Masked(Left(std::nullopt)), false, 0, 0},
        WindowCase{"Window", Masked(Left(7)), true, 7, 0},
        WindowCase{"WindowOfItself", Masked(Left(0)), true, 0, 0},
        WindowCase{"Streaming", Masked(Sinks(4, 100)), true, 100, 4},
        // What one mask hides is hidden: keys are let go by the narrower one.
        WindowCase{"Both", Masked(Left(50), Left(9)), true, 9, 0},
        // Without sinks even the first keys are hidden.
        WindowCase{"BothKinds", Masked(Sinks(4, 9), Left(50)), true, 50, 0},
        // What either of two shows is shown.
        WindowCase{"EitherOf", OneOf(Left(5), Left(9)), false, 0, 0}),
    [](const auto& instance) { return instance.param.name; });

// Su et al. 2021, section 3.4.2: the pair (2i, 2i+1) turns by the position
// times base^(-2i / d).
TEST(StepSpecTest, KeysAreTurnedByTheirPositionsInTheSession) {
  RotaryTransform rotary;
  rotary.layout = RotaryLayout::kInterleaved;
  rotary.base = 100;
  const auto steps = MakeSteps(Rotated(rotary));
  ASSERT_TRUE(steps.ok()) << steps.status();
  const PrepareKeys prepare = steps->preparation();
  ASSERT_TRUE(static_cast<bool>(prepare));
  constexpr int64_t kFirst = 70;
  std::vector<float> rows = {1, 0, 0, 1, 2, 3, -1, 0.5F};
  const std::vector<float> before = rows;
  prepare(1, kFirst, 2, rows.data());
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t pair = 0; pair < kStepDim / 2; ++pair) {
      const double angle =
          static_cast<double>(kFirst + row) *
          std::pow(100.0, -2.0 * static_cast<double>(pair) / kStepDim);
      const auto at = static_cast<size_t>(row * kStepDim + 2 * pair);
      const double x = before[at];
      const double y = before[at + 1];
      EXPECT_NEAR(rows[at], x * std::cos(angle) - y * std::sin(angle), 1e-5);
      EXPECT_NEAR(rows[at + 1], x * std::sin(angle) + y * std::cos(angle),
                  1e-5);
    }
  }
}

TEST(StepSpecTest, AStepTurnsItsQueriesAlone) {
  RotaryTransform rotary;
  rotary.query_offset = 3;
  const auto steps = MakeSteps(Rotated(rotary));
  ASSERT_TRUE(steps.ok()) << steps.status();
  const AttentionSpec at = steps->At(41);
  ASSERT_EQ(at.transforms.size(), 1U);
  const auto& turned = std::get<RotaryTransform>(at.transforms[0]);
  EXPECT_EQ(turned.target, TransformTarget::kQuery);
  EXPECT_EQ(turned.query_offset, 44);
  rotary.target = TransformTarget::kKey;
  const auto keys_alone = MakeSteps(Rotated(rotary));
  ASSERT_TRUE(keys_alone.ok()) << keys_alone.status();
  EXPECT_TRUE(keys_alone->At(41).transforms.empty());
  EXPECT_TRUE(static_cast<bool>(keys_alone->preparation()));
}

AttentionSpec WithTables(TransformTarget target, int64_t key_offset) {
  RotaryTransform rotary;
  rotary.target = target;
  rotary.key_offset = key_offset;
  rotary.cos = 0;
  rotary.sin = 1;
  return Rotated(rotary);
}

TEST(StepSpecTest, ATableOfAnglesReachesEveryKey) {
  const std::vector<float> angles(20 * kStepDim / 2, 0.5F);
  const std::vector<TensorView> tables(
      2, TensorView::Dense(angles.data(), DType::kF32, {20, kStepDim / 2}));
  const auto both =
      MakeSteps(WithTables(TransformTarget::kBoth, 5), DType::kF32, tables);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_TRUE(both->CheckReach(15).ok());
  const absl::Status beyond = both->CheckReach(16);
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(beyond.message()),
              HasSubstr("spec.transforms[0].rotary.cos.input: got 20 "
                        "positions, expected at least 21"));
  // Queries alone begin at an offset of their own: none here.
  const auto queries =
      MakeSteps(WithTables(TransformTarget::kQuery, 5), DType::kF32, tables);
  ASSERT_TRUE(queries.ok()) << queries.status();
  EXPECT_TRUE(queries->CheckReach(20).ok());
  EXPECT_FALSE(queries->CheckReach(21).ok());
}

TEST(StepSpecTest, AnglesByRowAreRefused) {
  const std::vector<float> angles(kStepDim / 2, 0.5F);
  const std::vector<TensorView> tables(
      2, TensorView::Dense(angles.data(), DType::kF32, {1, 1, kStepDim / 2}));
  const absl::Status status =
      MakeSteps(WithTables(TransformTarget::kBoth, 0), DType::kF32, tables)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("spec.transforms[0].rotary.cos.input: got angles by "
                        "row, expected by position"));
}

TEST(StepSpecTest, KeysWithoutTransformsStayAsTheyCome) {
  const auto steps = MakeSteps(Masked(CausalMask{}));
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_FALSE(static_cast<bool>(steps->preparation()));
}

TEST(StepSpecTest, ScalesOfInt8KeysComeBehindTheInputs) {
  const auto steps = MakeSteps(Masked(CausalMask{}), DType::kI8);
  ASSERT_TRUE(steps.ok()) << steps.status();
  const AttentionSpec at = steps->At(9);
  ASSERT_TRUE(at.kv_quantization.has_value());
  EXPECT_EQ(at.kv_quantization->granularity,
            QuantizationGranularity::kPerToken);
  const AttentionArgs args = steps->Args(10);
  ASSERT_EQ(args.inputs.size(), 2U);
  EXPECT_EQ(args.inputs[0].shape, Shape({1, kStepHeads, 10}));
  EXPECT_EQ(args.k.shape, Shape({1, kStepHeads, 10, kStepDim}));
  EXPECT_EQ(args.k.dtype, DType::kI8);
  EXPECT_EQ(args.kv_blocks.block_tokens, kKvBlockTokens);
}

}  // namespace
}  // namespace attn
