// Gradients through the layers before the heads and after them: against central
// differences of the way forth, in double.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/core/field_error.h"
#include "gtest/gtest.h"
#include "tests/engine/projections/projection_gradient.h"

namespace attn::testing {
namespace {

// 4 query heads over 2 of keys and values; d_k 6, d_v 5; out 8.
void FillModule(ProjectionCall& call, bool biases = true) {
  call.args().q = call.Store(SomeNumbers({2, 5, 9}, 1));
  call.args().k = call.Store(SomeNumbers({2, 7, 9}, 2));
  call.args().v = call.Store(SomeNumbers({2, 7, 11}, 3));
  const Numbers bq = SomeNumbers({24}, 8);
  const Numbers bk = SomeNumbers({12}, 9);
  const Numbers bv = SomeNumbers({10}, 10);
  const Numbers bo = SomeNumbers({8}, 11);
  ProjectionSpec& spec = call.projections();
  spec.query = call.AddLayer(SomeNumbers({24, 9}, 4), biases ? &bq : nullptr);
  spec.key = call.AddLayer(SomeNumbers({12, 9}, 5), biases ? &bk : nullptr);
  spec.value = call.AddLayer(SomeNumbers({10, 11}, 6), biases ? &bv : nullptr);
  spec.output = call.AddLayer(SomeNumbers({8, 20}, 7), biases ? &bo : nullptr);
  spec.q_heads = 4;
  spec.kv_heads = 2;
  call.spec().masks = {CausalMask{Alignment::kBottomRight}};
}

// 3 heads of 4 plain and 2 turning elements, d_v 5, over a latent of 6.
void FillLatent(ProjectionCall& call, bool compressed, bool norms,
                RotaryLayout layout) {
  call.args().q = call.Store(SomeNumbers({2, 4, 8}, 1));
  call.args().k = call.Store(SomeNumbers({2, 6, 8}, 2));
  ProjectionSpec& spec = call.projections();
  spec.q_heads = 3;
  const Numbers bias = SomeNumbers({8}, 3);
  const Numbers up_bias = SomeNumbers({18}, 4);
  spec.output = call.AddLayer(SomeNumbers({7, 15}, 5), nullptr);
  LatentProjection& latent = spec.latent.emplace();
  if (compressed) {
    latent.query_down = call.AddLayer(SomeNumbers({5, 8}, 6), nullptr);
    if (norms) latent.query_norm = call.AddInput(SomeNumbers({5}, 7));
    latent.query_up = call.AddLayer(SomeNumbers({18, 5}, 8), &up_bias);
  } else {
    latent.query_up = call.AddLayer(SomeNumbers({18, 8}, 9), &up_bias);
  }
  latent.kv_down = call.AddLayer(SomeNumbers({8, 8}, 10), &bias);
  if (norms) latent.kv_norm = call.AddInput(SomeNumbers({6}, 11));
  latent.kv_up = call.AddLayer(SomeNumbers({27, 6}, 12), nullptr);
  latent.plain_dim = 4;
  latent.rotary.layout = layout;
  latent.rotary.rotary_dim = 2;
  latent.rotary.query_offset = 2;
  latent.eps = 1e-5;
  call.spec().masks = {CausalMask{Alignment::kBottomRight}};
}

TEST(LayerGradientsTest, AModulesAreExact) {
  for (const bool biases : {false, true}) {
    ProjectionCall call(DType::kF64);
    FillModule(call, biases);
    ProjectionLoss(call).ExpectExact();
  }
}

TEST(LayerGradientsTest, EachPartMayComeByHead) {
  for (int without = 1; without < 15; ++without) {
    ProjectionCall call(DType::kF64);
    FillModule(call);
    ProjectionSpec& spec = call.projections();
    if ((without & 1) != 0) {
      spec.query.reset();
      call.args().q = call.Store(SomeNumbers({2, 4, 5, 6}, 21));
    }
    if ((without & 2) != 0) {
      spec.key.reset();
      call.args().k = call.Store(SomeNumbers({2, 2, 7, 6}, 22));
    }
    if ((without & 4) != 0) {
      spec.value.reset();
      call.args().v = call.Store(SomeNumbers({2, 2, 7, 5}, 23));
    }
    if ((without & 8) != 0) spec.output.reset();
    SCOPED_TRACE(without);
    ProjectionLoss(call).ExpectExact();
  }
}

TEST(LayerGradientsTest, LatentAttentionsAreExact) {
  for (const RotaryLayout layout :
       {RotaryLayout::kInterleaved, RotaryLayout::kHalfSplit}) {
    for (const bool compressed : {false, true}) {
      for (const bool norms : {false, true}) {
        ProjectionCall call(DType::kF64);
        FillLatent(call, compressed, norms, layout);
        SCOPED_TRACE(compressed);
        SCOPED_TRACE(norms);
        ProjectionLoss(call).ExpectExact();
      }
    }
  }
}

TEST(LayerGradientsTest, StagesAndLengthsKeepTheirs) {
  ProjectionCall call(DType::kF64);
  FillModule(call);
  call.args().q_lengths = {5, 3};
  call.args().kv_lengths = {6, 7};
  call.spec().softcap = 3;
  call.spec().temperatures = {1.5};
  call.spec().biases.emplace_back(
      DenseBias{.input = call.AddInput(SomeNumbers({4, 5, 7}, 12))});
  call.spec().dropout = DropoutSpec{
      .p = 0.3, .seed = 5, .renormalize = false, .keep = std::nullopt};
  ProjectionLoss loss(call);
  loss.set_from(true, true);
  loss.ExpectExact();
}

TEST(LayerGradientsTest, ATensorOfSeveralUsesGetsTheSumOfAll) {
  ProjectionCall call(DType::kF64);
  const Numbers x = SomeNumbers({2, 5, 8}, 1);
  call.args().q = call.Store(x);
  call.args().k = call.Store(x);
  call.args().v = call.Store(x);
  const Numbers bias = SomeNumbers({8}, 3);
  ProjectionSpec& spec = call.projections();
  spec.query = call.AddLayer(SomeNumbers({8, 8}, 2), &bias);
  spec.key = spec.query;
  spec.value = spec.query;
  // The bias of the layer after the heads is their gate too.
  const Numbers gate = SomeNumbers({4}, 4);
  spec.output = call.AddLayer(SomeNumbers({4, 8}, 5), &gate);
  call.spec().head_gate = spec.output->bias;
  spec.q_heads = 4;
  ProjectionLoss(call).ExpectExact();
}

TEST(LayerGradientsTest, LinearAttentionGoesBackToItsTokens) {
  ProjectionCall call(DType::kF64);
  FillModule(call);
  call.spec().masks.clear();
  LinearNormalizer linear;
  linear.bidirectional = true;
  call.spec().normalizer = linear;
  ProjectionLoss(call).ExpectExact();
}

double Largest(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

void ExpectSame(const LayerGradientResult& a, const LayerGradientResult& b,
                double tolerance) {
  ASSERT_TRUE(a.status.ok() && b.status.ok()) << a.status << b.status;
  EXPECT_LE(Largest(a.q, b.q), tolerance);
  EXPECT_LE(Largest(a.k, b.k), tolerance);
  EXPECT_LE(Largest(a.v, b.v), tolerance);
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    EXPECT_LE(Largest(a.inputs[i], b.inputs[i]), tolerance) << i;
  }
}

TEST(LayerGradientsTest, NarrowCallsGiveThoseOfTheSameNumbers) {
  ProjectionCall exact(DType::kF64);
  FillModule(exact);
  const LayerGradientResult expected = ProjectionLoss(exact).GoBack();
  ProjectionCall exact_latent(DType::kF64);
  FillLatent(exact_latent, true, true, RotaryLayout::kHalfSplit);
  const LayerGradientResult latent = ProjectionLoss(exact_latent).GoBack();
  // The grid of SomeNumbers() is exact in each type.
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    SCOPED_TRACE(std::string(Name(dtype)));
    ProjectionCall call(dtype);
    FillModule(call);
    ExpectSame(ProjectionLoss(call).GoBack(), expected, 2e-4);
    ProjectionCall narrow(dtype);
    FillLatent(narrow, true, true, RotaryLayout::kHalfSplit);
    ExpectSame(ProjectionLoss(narrow).GoBack(), latent, 2e-4);
  }
}

// More than one block of rows, of columns, and more than one segment of rows.
void FillLong(ProjectionCall& call, const Numbers& x) {
  call.args().q = call.Store(x);
  call.args().k = call.args().q;
  call.args().v = call.args().q;
  const Numbers bias = SomeNumbers({6}, 4);
  ProjectionSpec& spec = call.projections();
  spec.query = call.AddLayer(SomeNumbers({6, 300}, 2), &bias);
  spec.key = spec.query;
  spec.value = call.AddLayer(SomeNumbers({70, 300}, 3), nullptr);
  spec.output = call.AddLayer(SomeNumbers({2, 70}, 5), nullptr);
  spec.q_heads = 1;
  call.spec().masks = {WindowMask{3, 0, Alignment::kTopLeft}};
}

TEST(LayerGradientsTest, BitsDoNotDependOnWorkers) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    ProjectionCall call(dtype);
    FillLong(call, SomeNumbers({2, 200, 300}, 1));
    ProjectionLoss loss(call);
    ExpectSame(loss.GoBack(1), loss.GoBack(3), 0);
    ProjectionCall latent(dtype);
    FillLatent(latent, true, true, RotaryLayout::kInterleaved);
    ProjectionLoss of_latent(latent);
    ExpectSame(of_latent.GoBack(1), of_latent.GoBack(3), 0);
  }
}

TEST(LayerGradientsTest, RowsOfManySegmentsAreAllAdded) {
  // With one head of one element, weights of 0 on other keys, by hand:
  // out = v = w x, so that dw = sum d x.
  const int64_t rows = 4096 + 100;
  ProjectionCall call(DType::kF32);
  const Numbers x = SomeNumbers({2, rows / 2, 1}, 1);
  call.args().q = call.Store(x);
  call.args().k = call.args().q;
  call.args().v = call.args().q;
  ProjectionSpec& spec = call.projections();
  const Numbers bias = {{1}, {0.5}};
  spec.value = call.AddLayer({{1, 1}, {2}}, &bias);
  spec.q_heads = 1;
  call.args().q = call.Store({{2, 1, rows / 2, 1}, x.values});
  call.args().k = call.args().q;
  call.spec().masks = {WindowMask{0, 0, Alignment::kTopLeft}};
  ProjectionLoss loss(call);
  const LayerGradientResult result = loss.GoBack(2);
  ASSERT_TRUE(result.status.ok()) << result.status;
  double weight = 0;
  double of_bias = 0;
  for (size_t i = 0; i < x.values.size(); ++i) {
    weight += x.values[i] * loss.d_output().values[i];
    of_bias += loss.d_output().values[i];
  }
  EXPECT_NEAR(result.inputs[0][0], weight, 1e-3);
  EXPECT_NEAR(result.inputs[1][0], of_bias, 1e-3);
}

TEST(LayerGradientsTest, WhatIsWantedDoesNotChangeABitOfIt) {
  for (const bool latent : {false, true}) {
    ProjectionCall call(DType::kF32);
    if (latent) {
      FillLatent(call, true, true, RotaryLayout::kHalfSplit);
    } else {
      FillModule(call);
    }
    ProjectionLoss loss(call);
    const LayerGradientResult all = loss.GoBack();
    ASSERT_TRUE(all.status.ok()) << all.status;
    for (const uint32_t input : loss.Everything().inputs) {
      GradientSelection one;
      one.from_output = true;
      one.inputs = {input};
      const LayerGradientResult result = loss.GoBack(1, one);
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.inputs[input], all.inputs[input]) << input;
    }
    GradientSelection rows;
    rows.from_output = rows.k = true;
    EXPECT_EQ(loss.GoBack(1, rows).k, all.k);
  }
}

TEST(LayerGradientsTest, WhatAMaskedTokenHoldsReachesNoGradient) {
  for (const bool latent : {false, true}) {
    ProjectionCall call(DType::kF32);
    if (latent) {
      FillLatent(call, true, true, RotaryLayout::kHalfSplit);
    } else {
      FillModule(call);
    }
    const int64_t keys = call.args().k.shape[1];
    const auto in = static_cast<size_t>(call.args().k.shape[2]);
    call.args().kv_lengths = {keys - 1, keys};
    call.args().q_lengths = {3, 3};
    ProjectionLoss loss(call);
    const LayerGradientResult clean = loss.GoBack();
    const auto poison = [](const TensorView& tensor, size_t first, size_t n) {
      auto* data =
          const_cast<float*>(reinterpret_cast<const float*>(tensor.data));
      std::fill_n(data + first, n, std::nanf(""));
    };
    poison(call.args().k, static_cast<size_t>(keys - 1) * in, in);
    if (!latent) poison(call.args().v, 6 * 11, 11);
    poison(call.args().q, 3 * in, in);
    // The output's rows beyond the length are 0, whatever comes for them.
    const auto out = static_cast<size_t>(loss.d_output().shape[2]);
    std::fill_n(loss.d_output().values.begin() + 3 * static_cast<int>(out), out,
                std::nan(""));
    ExpectSame(clean, loss.GoBack(), 0);
    for (size_t i = 0; i < in; ++i) EXPECT_EQ(clean.q[3 * in + i], 0.0);
  }
}

TEST(LayerGradientsTest, WithoutACotangentOfTheOutputItsLayerHasNone) {
  ProjectionCall call(DType::kF64);
  FillModule(call);
  ProjectionLoss loss(call);
  loss.set_from(false, true);
  loss.ExpectExact();
  const LayerGradientResult result = loss.GoBack();
  const LinearLayer& output = *call.projections().output;
  for (const double x : result.inputs[output.weight]) EXPECT_EQ(x, 0.0);
  for (const double x : result.inputs[*output.bias]) EXPECT_EQ(x, 0.0);
}

TEST(LayerGradientsTest, OfNoRowsTheSumsAreZero) {
  ProjectionCall call(DType::kF32);
  FillModule(call);
  call.args().k = call.Store({{2, 0, 9}, {}});
  call.args().v = call.Store({{2, 0, 11}, {}});
  const LayerGradientResult result = ProjectionLoss(call).GoBack();
  ASSERT_TRUE(result.status.ok()) << result.status;
  const ProjectionSpec& spec = call.projections();
  for (const uint32_t input :
       {spec.query->weight, *spec.key->bias, spec.value->weight}) {
    for (const double x : result.inputs[input]) EXPECT_EQ(x, 0.0);
  }
  // Rows without keys are rows of the output layer's bias.
  double sum = 0;
  for (const double x : result.inputs[*spec.output->bias]) sum += std::abs(x);
  EXPECT_GT(sum, 0.0);
}

TEST(LayerGradientsTest, VisibleNaNIsCountedOnceAndReachesItsGradients) {
  ProjectionCall call(DType::kF32);
  FillModule(call);
  auto* v =
      const_cast<float*>(reinterpret_cast<const float*>(call.args().v.data));
  v[0] = std::nanf("");
  const LayerGradientResult result = ProjectionLoss(call).GoBack();
  ASSERT_TRUE(result.status.ok()) << result.status;
  // One row of values, of 5 elements in each of 2 heads.
  EXPECT_EQ(result.report.nonfinite_v, 10);
  EXPECT_EQ(result.report.nonfinite_q, 0);
  EXPECT_EQ(result.report.nonfinite_k, 0);
  EXPECT_GT(result.report.nonfinite_outputs, 0);
}

TEST(LayerGradientsTest, WhatDoesNotFitIsNamed) {
  ProjectionCall call(DType::kF32);
  FillModule(call);
  ProjectionLoss loss(call);
  loss.d_output().shape = {2, 4, 5, 5};
  EXPECT_EQ(FieldOf(loss.GoBack().status), "d_output.shape");
  ProjectionCall latent(DType::kF32);
  FillLatent(latent, true, true, RotaryLayout::kHalfSplit);
  ProjectionLoss of_latent(latent);
  GradientSelection wanted = of_latent.Everything();
  wanted.v = true;
  EXPECT_EQ(FieldOf(of_latent.GoBack(1, wanted).status), "gradients");
}

TEST(LayerGradientsTest, ThePlanTellsLayersAndWork) {
  ProjectionCall call(DType::kF32);
  FillModule(call);
  OutputGradients cotangents;
  cotangents.output = TensorView::Dense(nullptr, DType::kF32, Shape{2, 5, 8});
  GradientSelection wanted;
  wanted.from_output = wanted.q = wanted.k = wanted.v = true;
  Engine engine({.workers = 1});
  const auto plan =
      engine.PlanBackward(call.spec(), call.args(), cotangents, wanted);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->pipeline.find("project q, k, v -> "), 0u);
  // q, k, v, their gradients and that of the output, all f32; and the inputs.
  int64_t elements = 2 * 2 * (5 * 9 + 7 * 9 + 7 * 11) + 2 * 5 * 8;
  for (const TensorView& input : call.args().inputs) {
    elements += input.shape.element_count();
  }
  EXPECT_EQ((*plan)->tensor_bytes, 4 * elements);
}

}  // namespace
}  // namespace attn::testing
