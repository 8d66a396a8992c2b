// Gradients where shapes are awkward, stages combine, or there is nothing.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/gradients/gradient_call.h"

namespace attn::testing {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool AllFinite(const std::vector<double>& values) {
  for (const double x : values) {
    if (!std::isfinite(x)) return false;
  }
  return true;
}

bool AllZero(const std::vector<double>& values, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    if (values[i] != 0) return false;
  }
  return true;
}

// Nearly every stage at once.
void AddManyStages(GradientCall& call) {
  const CallSize& size = call.size();
  AttentionSpec& spec = call.spec();
  RotaryTransform rotary;
  rotary.rotary_dim = 4;
  spec.transforms = {rotary};
  spec.score = DotScore{0.8, std::nullopt};
  spec.softcap = 1.7;
  spec.biases = {DenseBias{call.AddInput({size.q_heads, 1, size.kv_length})},
                 AlibiBias{}};
  spec.score_program =
      ProgramSpec{"score + 0.3 * sin(score) + t[h] * score * score",
                  {{"t", call.AddInput({size.q_heads}, 0.2)}}};
  spec.masks = {WindowMask{9, 6, Alignment::kBottomRight}};
  for (int64_t h = 0; h < size.q_heads; ++h) {
    spec.temperatures.push_back(0.7 + 0.2 * static_cast<double>(h));
  }
  spec.normalizer = SoftmaxNormalizer{call.AddInput({size.q_heads})};
  spec.weight_program = ProgramSpec{"weight * (1 + u[k % 3]) + weight * weight",
                                    {{"u", call.AddInput({3})}}};
  spec.dropout = DropoutSpec{0.3, 5, false, std::nullopt};
  spec.head_gate = call.AddInput({size.batch, size.q_heads, size.q_length});
}

TEST(CornersTest, ManyStagesTogetherHaveExactGradients) {
  GradientCall call({});
  AddManyStages(call);
  call.ExpectExact();
}

TEST(CornersTest, AwkwardShapesHaveExactGradients) {
  for (const CallSize& size :
       {CallSize{1, 1, 1, 1, 17, 33, 5}, CallSize{1, 4, 1, 3, 17, 33, 1},
        CallSize{2, 8, 1, 2, 5, 3, 4}, CallSize{1, 8, 2, 20, 70, 4, 3},
        CallSize{1, 2, 2, 40, 3, 4, 3}}) {
    SCOPED_TRACE(size.kv_length);
    GradientCall call(size);
    call.spec().score = DotScore{0.5, std::nullopt};
    call.spec().masks = {CausalMask{Alignment::kBottomRight}};
    call.spec().temperatures = {1.3};
    call.ExpectExact();
  }
}

TEST(CornersTest, RenormalisedDropoutHasItsExactGradient) {
  GradientCall call({});
  call.spec().dropout = DropoutSpec{0.4, 9, true, std::nullopt};
  call.spec().normalizer = SigmoidNormalizer{};
  call.spec().masks = {CausalMask{Alignment::kBottomRight}};
  call.spec().head_gate = call.AddInput({call.size().q_heads});
  call.ExpectExact();
}

TEST(CornersTest, RaggedLengthsHaveExactGradientsAndZerosBeyond) {
  GradientCall call({});
  AddManyStages(call);
  call.args().q_lengths = {3, 5};
  call.args().kv_lengths = {17, 11};
  call.ExpectExact();
  const Gradients gradients = call.Backward();
  const CallSize& s = call.size();
  for (int64_t h = 0; h < s.q_heads; ++h) {
    const int64_t first = (h * s.q_length + 3) * s.k_dim;
    EXPECT_TRUE(AllZero(gradients.q, static_cast<size_t>(first),
                        static_cast<size_t>(2 * s.k_dim)));
  }
  for (int64_t h = 0; h < s.kv_heads; ++h) {
    const int64_t key = (s.kv_heads + h) * s.kv_length + 11;
    EXPECT_TRUE(AllZero(gradients.k, static_cast<size_t>(key * s.k_dim),
                        static_cast<size_t>(6 * s.k_dim)));
    EXPECT_TRUE(AllZero(gradients.v, static_cast<size_t>(key * s.v_dim),
                        static_cast<size_t>(6 * s.v_dim)));
  }
}

TEST(CornersTest, WithoutACotangentOfTheOutputOnlyTheLseCounts) {
  GradientCall call({});
  std::memset(call.d_output(), 0, sizeof(double) * 2 * 4 * 5 * 6);
  call.ExpectExact();
  EXPECT_TRUE(AllZero(call.Backward().v, 0, 2 * 2 * 17 * 6));
}

TEST(CornersTest, ARowThatSeesNoKeyHasGradientZero) {
  // Sq > Sk, bottom right: the first rows are empty.
  GradientCall call({.q_length = 9, .kv_length = 4});
  call.spec().masks = {CausalMask{Alignment::kBottomRight}};
  call.spec().normalizer =
      SoftmaxNormalizer{call.AddInput({call.size().q_heads})};
  call.ExpectExact();
  const Gradients gradients = call.Backward();
  EXPECT_EQ(gradients.report.fully_masked_rows, 2 * 4 * 5);
  EXPECT_TRUE(AllZero(gradients.q, 0, 5 * 7));
}

// NaN and infinities where nobody looks: a key behind a mask, one beyond the
// length, a query beyond its length, and all of a row that sees nothing.
TEST(CornersTest, WhatIsExcludedReachesNoGradient) {
  const auto poison = [](double* data, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      data[i] = i % 2 == 0 ? kNaN : -std::numeric_limits<double>::infinity();
    }
  };
  for (const bool cosine : {false, true}) {
    SCOPED_TRACE(cosine);
    GradientCall call({.batch = 1});
    const CallSize& s = call.size();
    if (cosine) {
      call.spec().score = CosineScore{};
    } else {
      call.spec().score =
          BilinearScore{call.AddInput({s.k_dim, s.k_dim}, 0.5), 0, 0.5};
    }
    NormTransform norm;
    norm.query_weight = call.AddInput({s.k_dim});
    norm.key_weight = call.AddInput({s.k_dim});
    call.spec().transforms = {norm};
    std::vector<uint8_t> allowed(static_cast<size_t>(s.q_length * s.kv_length),
                                 1);
    for (int64_t i = 0; i < s.q_length; ++i) {
      allowed[static_cast<size_t>(i * s.kv_length + 4)] = 0;
    }
    std::fill_n(allowed.begin() + 2 * s.kv_length, s.kv_length, uint8_t{0});
    call.spec().masks = {DenseMask{call.AddBytes(
        DType::kBool, {s.q_length, s.kv_length}, allowed.data())}};
    call.args().q_lengths = {4};
    call.args().kv_lengths = {15};
    const Gradients clean = call.Backward();
    for (int64_t h = 0; h < s.kv_heads; ++h) {
      for (const int64_t key : {4, 15, 16}) {
        poison(call.k(), (h * s.kv_length + key) * s.k_dim, s.k_dim);
        poison(call.v(), (h * s.kv_length + key) * s.v_dim, s.v_dim);
      }
    }
    for (int64_t h = 0; h < s.q_heads; ++h) {
      for (const int64_t row : {2, 4}) {
        poison(call.q(), (h * s.q_length + row) * s.k_dim, s.k_dim);
        poison(call.d_output(), (h * s.q_length + row) * s.v_dim, s.v_dim);
        poison(call.d_lse(), h * s.q_length + row, 1);
      }
    }
    const Gradients poisoned = call.Backward();
    EXPECT_EQ(poisoned.q, clean.q);
    EXPECT_EQ(poisoned.k, clean.k);
    EXPECT_EQ(poisoned.v, clean.v);
    EXPECT_EQ(poisoned.inputs, clean.inputs);
    EXPECT_EQ(poisoned.report.scalar_gradients.scale,
              clean.report.scalar_gradients.scale);
    EXPECT_TRUE(AllFinite(poisoned.q) && AllFinite(poisoned.k));
    EXPECT_EQ(poisoned.report.nonfinite_outputs, 0);
  }
}

TEST(CornersTest, BitsDoNotDependOnThreads) {
  GradientCall call({.batch = 3, .q_heads = 8, .kv_heads = 4, .q_length = 33});
  AddManyStages(call);
  const Gradients one = call.Backward(1);
  const Gradients three = call.Backward(3);
  EXPECT_EQ(one.q, three.q);
  EXPECT_EQ(one.k, three.k);
  EXPECT_EQ(one.v, three.v);
  EXPECT_EQ(one.inputs, three.inputs);
  EXPECT_EQ(one.report.scalar_gradients.temperatures,
            three.report.scalar_gradients.temperatures);
  EXPECT_EQ(one.report.scalar_gradients.softcap,
            three.report.scalar_gradients.softcap);
}

TEST(CornersTest, EmptyShapesGiveZeros) {
  for (const CallSize& size :
       {CallSize{.kv_length = 0}, CallSize{.q_length = 0}, CallSize{.batch = 0},
        CallSize{.v_dim = 0}, CallSize{.k_dim = 0}, CallSize{.q_heads = 0},
        CallSize{.q_heads = 0, .kv_heads = 0}}) {
    GradientCall call(size);
    call.spec().biases = {ConstantBias{call.AddInput({size.q_heads})}};
    EXPECT_TRUE(std::isfinite(call.Loss()));
    const Gradients gradients = call.Backward();
    EXPECT_TRUE(AllFinite(gradients.q) && AllFinite(gradients.k) &&
                AllFinite(gradients.v) && AllFinite(gradients.inputs[0]));
    EXPECT_EQ(gradients.inputs[0].size(), static_cast<size_t>(size.q_heads));
    if (size.kv_length == 0) {
      EXPECT_TRUE(AllZero(gradients.q, 0, gradients.q.size()));
    }
    if (size.q_length == 0 || size.q_heads == 0) {
      EXPECT_TRUE(AllZero(gradients.k, 0, gradients.k.size()));
      EXPECT_TRUE(AllZero(gradients.v, 0, gradients.v.size()));
    }
  }
}

}  // namespace
}  // namespace attn::testing
