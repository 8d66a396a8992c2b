#include "server/rpc/gradient_builder.h"

#include <limits>

#include "engine/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;

using Numbers = ::attention::v1::AttendBackwardResponse;

class GradientBuilderTest : public ::testing::Test {
 protected:
  GradientBuilderTest() {
    call_.args.q = TensorView::Dense(nullptr, DType::kF16, {1, 4, 3, 8});
    call_.args.k = TensorView::Dense(nullptr, DType::kF16, {1, 2, 5, 8});
    call_.args.v = TensorView::Dense(nullptr, DType::kF16, {1, 2, 5, 6});
    call_.args.inputs = {
        TensorView::Dense(nullptr, DType::kBool, {3, 5}),
        TensorView::Dense(nullptr, DType::kF32, {4, 1, 1}),
    };
    call_.spec.masks = {DenseMask{.input = 0}};
    call_.spec.biases = {DenseBias{.input = 1}};
    call_.cotangents.output =
        TensorView::Dense(nullptr, DType::kF32, {1, 4, 3, 6});
    call_.wanted.from_output = true;
  }

  GradientBuilder Make() {
    const auto plan = engine_.PlanBackward(call_.spec, call_.args,
                                           call_.cotangents, call_.wanted);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return GradientBuilder(**plan, call_);
  }

  Engine engine_{{.workers = 1}};
  BackwardCall call_;
};

TEST_F(GradientBuilderTest, OnlyWhatIsWantedIsAllocated) {
  call_.wanted.k = true;
  call_.wanted.inputs = {1};
  GradientBuilder builder = Make();
  const InputGradients views = builder.Allocate();
  EXPECT_FALSE(views.q.wanted());
  EXPECT_TRUE(views.k.wanted());
  EXPECT_FALSE(views.v.wanted());
  ASSERT_EQ(views.inputs.size(), 2U);
  EXPECT_FALSE(views.inputs[0].wanted());
  EXPECT_TRUE(views.inputs[1].wanted());
  const auto tensors = builder.TakeTensors();
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].field, Numbers::kDKFieldNumber);
  EXPECT_EQ(tensors[1].field, Numbers::kDInputsFieldNumber);
  // Single precision, though the call is of F16.
  EXPECT_EQ(tensors[0].dtype, DType::kF32);
}

TEST_F(GradientBuilderTest, AGradientGoesBackInTheOrderOfItsTensor) {
  call_.wanted.k = true;
  call_.wanted.v = true;
  call_.k_bshd = true;
  GradientBuilder builder = Make();
  const InputGradients views = builder.Allocate();
  // The engine sees [B, H, S, D] whatever the memory's order.
  EXPECT_EQ(views.k.shape, Shape({1, 2, 5, 8}));
  EXPECT_THAT(views.k.strides, ElementsAre(80, 8, 16, 1));
  const auto tensors = builder.TakeTensors();
  EXPECT_EQ(tensors[0].shape, Shape({1, 5, 2, 8}));
  EXPECT_TRUE(tensors[0].bshd);
  EXPECT_EQ(tensors[1].shape, Shape({1, 2, 5, 6}));
  EXPECT_FALSE(tensors[1].bshd);
}

TEST_F(GradientBuilderTest, TheSizeCoversEveryTensor) {
  const int64_t without = Make().message_bytes();
  call_.wanted.q = true;
  const GradientBuilder with = Make();
  EXPECT_GE(with.message_bytes() - without, 4 * 3 * 8 * 4);
  EXPECT_GE(with.booked_bytes(), with.message_bytes());
}

TEST_F(GradientBuilderTest, TheHeaderHasTheNumbersAndTheInputs) {
  call_.wanted.inputs = {1};
  const GradientBuilder builder = Make();
  Numbers header;
  builder.FillHeader({.scale = 2, .softcap = 3, .temperatures = {4, 5}},
                     header);
  EXPECT_THAT(header.gradient_inputs(), ElementsAre(1));
  EXPECT_EQ(header.d_scale(), 2);
  EXPECT_EQ(header.d_softcap(), 3);
  EXPECT_THAT(header.d_temperatures(), ElementsAre(4, 5));
}

}  // namespace
}  // namespace attn
