// What a backward call asks of its caller, and how it runs.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/field_error.h"
#include "engine/core/half.h"
#include "engine/kernels/step_phases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/gradients/gradient_call.h"

namespace attn::testing {
namespace {

// A call of shapes without data: what Plan looks at.
class ContractTest : public ::testing::Test {
 protected:
  ContractTest() : engine_({.workers = 1}) {
    args_.q = TensorView::Dense(nullptr, DType::kF32, {2, 4, 5, 8});
    args_.k = TensorView::Dense(nullptr, DType::kF32, {2, 2, 7, 8});
    args_.v = TensorView::Dense(nullptr, DType::kF32, {2, 2, 7, 6});
    args_.inputs = {TensorView::Dense(nullptr, DType::kF32, {4}),
                    TensorView::Dense(nullptr, DType::kI32, {7})};
    cotangents_.output = TensorView::Dense(nullptr, DType::kF32, {2, 4, 5, 6});
    cotangents_.lse = TensorView::Dense(nullptr, DType::kF32, {2, 4, 5});
    wanted_.from_output = wanted_.from_lse = true;
  }

  // Expects a refusal that names the field.
  void ExpectRefused(const std::string& field) {
    const absl::Status status =
        engine_.PlanBackward(spec_, args_, cotangents_, wanted_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(FieldOf(status), field) << status;
  }

  Engine engine_;
  AttentionSpec spec_;
  AttentionArgs args_;
  OutputGradients cotangents_;
  GradientSelection wanted_;
};

TEST_F(ContractTest, ThePlanNamesItsKernelAndWhyNotTheOthers) {
  const auto plan = engine_.PlanBackward(spec_, args_, cotangents_, wanted_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->kernel, "softmax_backward");
  EXPECT_EQ((*plan)->verdicts.size(), 3u);
  EXPECT_FALSE((*plan)->verdicts[0].why_not.empty());
  EXPECT_GT((*plan)->flops, 0);
}

TEST_F(ContractTest, AForwardPlanDoesNotMentionTheKernelsOfTheWayBack) {
  const auto plan = engine_.Plan(spec_, args_, OutputSelection{}, DType::kF32);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const KernelVerdict& verdict : (*plan)->verdicts) {
    EXPECT_EQ(verdict.kernel.find("backward"), std::string::npos);
  }
}

TEST_F(ContractTest, AForwardAndABackwardCallShareNoPlan) {
  const auto forward =
      engine_.Plan(spec_, args_, OutputSelection{}, DType::kF32);
  const auto backward =
      engine_.PlanBackward(spec_, args_, cotangents_, wanted_);
  wanted_.q = true;
  const auto other = engine_.PlanBackward(spec_, args_, cotangents_, wanted_);
  ASSERT_TRUE(forward.ok() && backward.ok() && other.ok());
  EXPECT_NE((*forward)->kernel, (*backward)->kernel);
  EXPECT_NE(*backward, *other);
}

TEST_F(ContractTest, AtLeastOneCotangentIsAsked) {
  wanted_.from_output = wanted_.from_lse = false;
  ExpectRefused("d_output");
}

TEST_F(ContractTest, CotangentsHaveTheShapeOfWhatTheyBelongTo) {
  cotangents_.output.shape = {2, 4, 5, 8};
  ExpectRefused("d_output.shape");
  wanted_.from_output = false;
  cotangents_.lse.shape = {2, 2, 5};
  ExpectRefused("d_lse.shape");
}

TEST_F(ContractTest, CotangentsAreFloats) {
  cotangents_.output.dtype = DType::kI32;
  ExpectRefused("d_output.dtype");
  wanted_.from_output = false;
  cotangents_.lse.dtype = DType::kF16;
  ExpectRefused("d_lse.dtype");
}

TEST_F(ContractTest, WantedInputsExistAscendAndAreFloats) {
  wanted_.inputs = {0, 2};
  ExpectRefused("gradient_inputs[1]");
  wanted_.inputs = {1};
  ExpectRefused("gradient_inputs[0]");
  wanted_.inputs = {0, 0};
  ExpectRefused("gradient_inputs[1]");
}

TEST_F(ContractTest, AStageWithoutGradientSaysWhy) {
  spec_.normalizer = HardNormalizer{};
  ExpectRefused("spec.normalizer");
  const absl::Status status =
      engine_.PlanBackward(spec_, args_, cotangents_, wanted_).status();
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("constant almost everywhere"));
}

TEST_F(ContractTest, WhatTheForwardCallRefusesIsRefused) {
  spec_.softcap = -1;
  ExpectRefused("spec.softcap");
}

// Half a call's gradients, F32, beside those of the same numbers in F64.
TEST(NarrowTest, GradientsOfHalfCallsAreF32AndThoseOfTheSameNumbers) {
  const int64_t count = 4 * 8;
  std::vector<uint16_t> half[3];
  std::vector<double> wide[3];
  for (int t = 0; t < 3; ++t) {
    for (int64_t i = 0; i < count; ++i) {
      const auto x = static_cast<float>(std::sin(t + 1.7 * double(i)));
      half[t].push_back(ToF16(x));
      wide[t].push_back(FromF16(half[t].back()));
    }
  }
  const Shape shape = {1, 1, 4, 8};
  const auto run = [&](DType dtype, DType gradient_type, void* out,
                       const std::vector<const void*>& data) {
    AttentionArgs args;
    args.q = TensorView::Dense(data[0], dtype, shape);
    args.k = TensorView::Dense(data[1], dtype, shape);
    args.v = TensorView::Dense(data[2], dtype, shape);
    OutputGradients cotangents;
    cotangents.output = args.v;
    GradientSelection wanted;
    wanted.from_output = wanted.k = true;
    Engine engine({.workers = 1});
    const auto plan =
        engine.PlanBackward(AttentionSpec{}, args, cotangents, wanted);
    ASSERT_TRUE(plan.ok()) << plan.status();
    InputGradients gradients;
    gradients.k = MutableTensorView::Dense(out, gradient_type, shape);
    ASSERT_TRUE(
        engine.RunBackward(*plan, args, cotangents, gradients).status.ok());
  };
  std::vector<float> narrow(count);
  std::vector<double> exact(count);
  run(DType::kF16, DType::kF32, narrow.data(),
      {half[0].data(), half[1].data(), half[2].data()});
  run(DType::kF64, DType::kF64, exact.data(),
      {wide[0].data(), wide[1].data(), wide[2].data()});
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(narrow[i], exact[i], 1e-6) << i;
  }
}

// A tensor of eight megabytes of gradient and twelve planes: fewer buffers
// than planes, so that some planes wait for others.
TEST(BuffersTest, FewerBuffersThanPlanesGiveTheSameGradients) {
  const CallSize size = {3, 8, 4, 5, 17, 7, 6};
  GradientCall few(size);
  GradientCall many(size);
  for (GradientCall* call : {&few, &many}) {
    call->spec().biases = {DenseBias{call->AddInput({8, 5, 17})}};
    call->spec().softcap = 2.0;
  }
  few.AddInput({1 << 20});
  const Gradients a = few.Backward(2);
  const Gradients b = many.Backward(2);
  EXPECT_EQ(a.q, b.q);
  EXPECT_EQ(a.k, b.k);
  EXPECT_EQ(a.v, b.v);
  for (size_t i = 0; i < b.inputs[0].size(); ++i) {
    EXPECT_NEAR(a.inputs[0][i], b.inputs[0][i], 1e-13);
  }
  EXPECT_NEAR(a.report.scalar_gradients.softcap,
              b.report.scalar_gradients.softcap, 1e-12);
}

TEST(BuffersTest, ManyStepsShareFewPhases) {
  const StepPhases phases(3, 1000000);
  EXPECT_LE(phases.count(), StepPhases::kMaxPhases);
  int64_t next = 0;
  for (int phase = 0; phase < phases.count(); ++phase) {
    phases.ForEach(phase, [&](int64_t round, int64_t step) {
      EXPECT_EQ(round * 1000000 + step, next++);
    });
  }
  EXPECT_EQ(next, 3000000);
}

TEST(CancelledTest, ACancelledCallSaysSoAndGivesNoNumbers) {
  GradientCall call({});
  const auto plan = call.PlanBackward();
  ASSERT_TRUE(plan.ok()) << plan.status();
  Cancellation cancelled(Clock::Monotonic(), absl::InfinitePast());
  const CallReport report = call.RunCancelled(*plan, cancelled);
  EXPECT_FALSE(report.status.ok());
  EXPECT_TRUE(report.row_statistics.empty());
  EXPECT_EQ(report.scalar_gradients.scale, 0);
}

// The gradient of alpha was 0 at 1 and lost its digits near it.
TEST(EntmaxTest, TheGradientOfAlphaIsContinuousAtOne) {
  const auto of_alpha = [](double alpha) {
    GradientCall call({.batch = 1});
    call.spec().normalizer = EntmaxNormalizer{
        std::nullopt, call.AddInput({call.size().q_heads}, 0, alpha)};
    return call.Backward().inputs[0];
  };
  const std::vector<double> at_one = of_alpha(1);
  for (const double step : {1e-9, 1e-6, 1e-4}) {
    const std::vector<double> near = of_alpha(1 + step);
    for (size_t h = 0; h < at_one.size(); ++h) {
      EXPECT_NE(at_one[h], 0);
      EXPECT_NEAR(near[h], at_one[h], 1e-6 + 50 * step) << step;
    }
  }
}

}  // namespace
}  // namespace attn::testing
