// Kernels of the way back against each other, where blocks, panels and lanes
// begin and end.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/backward_problem.h"
#include "gtest/gtest.h"
#include "tests/engine/gradients/kernel_run.h"
#include "tests/engine/gradients/random_tensors.h"

namespace attn::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
// Of gradients in F32, beside their norm.
constexpr double kTolerance = 3e-6;

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want,
                const char* name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  EXPECT_LE(std::sqrt(difference), kTolerance * (1 + std::sqrt(norm))) << name;
}

// Every kernel that supports the call agrees with the last, which is double.
// `kernels`: how many there are.
void ExpectAgreement(const BackwardCall& call, size_t kernels = 2) {
  const std::vector<const Kernel*> all = KernelsOf(call);
  ASSERT_EQ(all.size(), kernels);
  const KernelGradients want = RunKernel(*all.back(), call);
  for (const Kernel* kernel : all) {
    SCOPED_TRACE(kernel->name());
    const KernelGradients got = RunKernel(*kernel, call);
    ExpectNear(got.q, want.q, "q");
    ExpectNear(got.k, want.k, "k");
    ExpectNear(got.v, want.v, "v");
    ASSERT_EQ(got.inputs.size(), want.inputs.size());
    for (size_t i = 0; i < got.inputs.size(); ++i) {
      ExpectNear(got.inputs[i], want.inputs[i], "input");
    }
    // A sum over all rows in which most cancels.
    EXPECT_NEAR(got.numbers.scale, want.numbers.scale, 1e-4);
    EXPECT_EQ(got.nonfinite_outputs, want.nonfinite_outputs);
    for (size_t i = 0; i < got.rows.size(); ++i) {
      if (want.rows[i].visible_keys == 0) {
        EXPECT_EQ(got.rows[i].lse_with_sink, want.rows[i].lse_with_sink);
      } else {
        EXPECT_NEAR(got.rows[i].lse_with_sink, want.rows[i].lse_with_sink,
                    1e-5);
      }
      EXPECT_NEAR(got.rows[i].entropy, want.rows[i].entropy, 1e-4);
      EXPECT_NEAR(got.rows[i].peak_weight, want.rows[i].peak_weight, 1e-5);
      EXPECT_EQ(got.rows[i].visible_keys, want.rows[i].visible_keys);
      EXPECT_EQ(got.rows[i].top_key, want.rows[i].top_key);
    }
  }
}

// Block of rows: 96, or 64 beside masks of less than 1024 keys; panel: 64 keys;
// part: 512.
constexpr Extents kAwkward[] = {
    {.q_length = 1, .kv_length = 17, .dim = 33, .v_dim = 65},
    {.q_length = 65, .kv_length = 64, .dim = 16, .v_dim = 1},
    {.q_heads = 8, .kv_heads = 2, .q_length = 67, .kv_length = 65, .dim = 65},
    {.batch = 2,
     .q_heads = 8,
     .kv_heads = 1,
     .q_length = 132,
     .kv_length = 130,
     .dim = 5,
     .v_dim = 31},
    {.q_heads = 1, .kv_heads = 1, .q_length = 70, .kv_length = 577, .dim = 80},
    {.q_heads = 1,
     .kv_heads = 1,
     .q_length = 100,
     .kv_length = 1100,
     .dim = 12,
     .v_dim = 20},
    // Four lanes.
    {.q_heads = 36, .kv_heads = 1, .q_length = 67, .kv_length = 40},
};

TEST(BackwardKernelsTest, AgreeOnAwkwardExtents) {
  for (const Extents& extents : kAwkward) {
    SCOPED_TRACE(absl::StrCat(extents.q_length, " x ", extents.kv_length));
    RandomTensors tensors(extents, DType::kF32);
    ExpectAgreement(tensors.call());
  }
}

TEST(BackwardKernelsTest, AgreeWhereAnExtentIsZero) {
  for (const Extents& extents :
       {Extents{.q_length = 0, .kv_length = 70}, Extents{.kv_length = 0},
        Extents{.batch = 0}, Extents{.q_heads = 0}, Extents{.dim = 0},
        Extents{.v_dim = 0}, Extents{.q_heads = 0, .kv_heads = 0}}) {
    RandomTensors tensors(extents, DType::kF32);
    ExpectAgreement(tensors.call());
  }
}

TEST(BackwardKernelsTest, AgreeBehindEveryKindOfMask) {
  for (const Extents& e : kAwkward) {
    SCOPED_TRACE(absl::StrCat(e.q_length, " x ", e.kv_length));
    RandomTensors tensors(e, DType::kF32);
    const uint32_t dense = tensors.AddMask({e.q_length, e.kv_length}, 0.4);
    for (const std::vector<MaskSpec>& masks :
         std::vector<std::vector<MaskSpec>>{
             {CausalMask{Alignment::kTopLeft}},
             {CausalMask{Alignment::kBottomRight}},
             {WindowMask{40, 3, Alignment::kBottomRight}},
             {DenseMask{dense}},
             {DenseMask{dense}, CausalMask{Alignment::kBottomRight}}}) {
      tensors.spec().masks = masks;
      ExpectAgreement(tensors.call());
    }
  }
}

TEST(BackwardKernelsTest, AgreeOnCallsOfSixteenBits) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(std::string(Name(dtype)));
    RandomTensors tensors(
        {.q_heads = 4, .q_length = 70, .kv_length = 90, .dim = 40}, dtype);
    tensors.spec().masks = {CausalMask{Alignment::kBottomRight}};
    ExpectAgreement(tensors.call());
  }
}

TEST(BackwardKernelsTest, AgreeOnManyStages) {
  RandomTensors tensors(
      {.batch = 2, .q_heads = 4, .q_length = 70, .kv_length = 130},
      DType::kF32);
  AttentionSpec& spec = tensors.spec();
  spec.score = DotScore{0.4, LearnedScale{tensors.AddInput({4}), 1.0}};
  spec.softcap = 3;
  spec.biases = {AlibiBias{}, DenseBias{tensors.AddInput({4, 70, 130})}};
  spec.masks = {CausalMask{Alignment::kBottomRight}};
  spec.temperatures = {0.5, 1, 1.5, 2};
  spec.normalizer = SoftmaxNormalizer{tensors.AddInput({4, 2})};
  spec.dropout = DropoutSpec{0.3, 5, false, std::nullopt};
  spec.head_gate = tensors.AddInput({2, 4, 70});
  tensors.call().args.q_lengths = {70, 66};
  tensors.call().args.kv_lengths = {65, 130};
  ExpectAgreement(tensors.call());
}

TEST(BackwardKernelsTest, AgreeOnWhatFewKeysOfManyAreKept) {
  RandomTensors tensors({.q_length = 70, .kv_length = 600}, DType::kF32);
  TopKSparsifier top;
  top.k = 7;
  tensors.spec().sparsifiers = {top};
  tensors.spec().normalizer = SoftmaxPlusNormalizer{};
  ExpectAgreement(tensors.call());
}

TEST(BackwardKernelsTest, StridedTensorsHaveTheGradientsOfDenseOnes) {
  RandomTensors tensors({.batch = 2, .q_length = 67, .kv_length = 40},
                        DType::kF32);
  BackwardCall call = tensors.call();
  const Kernel& kernel = *KernelsOf(call).front();
  // [B, S, H, D] in memory.
  std::vector<std::vector<float>> turned;
  for (TensorView* view : {&call.args.q, &call.args.k, &call.args.v}) {
    std::vector<float> values;
    for (int64_t b = 0; b < view->shape[0]; ++b) {
      for (int64_t s = 0; s < view->shape[2]; ++s) {
        for (int64_t h = 0; h < view->shape[1]; ++h) {
          const float* row = tensors.Row(*view, b, h, s);
          values.insert(values.end(), row, row + view->shape[3]);
        }
      }
    }
    turned.push_back(std::move(values));
    const Shape shape = {view->shape[0], view->shape[2], view->shape[1],
                         view->shape[3]};
    *view = TensorView::Dense(turned.back().data(), DType::kF32, shape)
                .SwapAxes(1, 2);
  }
  const KernelGradients got = RunKernel(kernel, call);
  const KernelGradients want = RunKernel(kernel, tensors.call());
  EXPECT_EQ(got.q, want.q);
  EXPECT_EQ(got.k, want.k);
  EXPECT_EQ(got.v, want.v);
}

void Poison(float* row, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    row[i] = i % 3 == 0 ? kNaN : i % 3 == 1 ? kInf : -kInf;
  }
}

// Keys 0 and 33 are hidden from all rows, row 20 sees nothing, rows and keys
// beyond the lengths belong to nobody.
TEST(BackwardKernelsTest, NaNWhereNobodyLooksReachesNoGradient) {
  const Extents e{.q_length = 70, .kv_length = 80};
  RandomTensors tensors(e, DType::kF32);
  BackwardCall& call = tensors.call();
  const uint32_t mask = tensors.AddMask({e.q_length, e.kv_length}, 0.7);
  auto* allowed = const_cast<std::byte*>(call.args.inputs[mask].data);
  for (int64_t i = 0; i < e.q_length; ++i) {
    for (const int64_t j : {0, 33}) allowed[i * e.kv_length + j] = {};
  }
  std::fill_n(allowed + 20 * e.kv_length, e.kv_length, std::byte{});
  call.spec.masks = {DenseMask{mask}};
  call.args.q_lengths = {69};
  call.args.kv_lengths = {75};
  for (const Kernel* kernel : KernelsOf(call)) {
    SCOPED_TRACE(kernel->name());
    const KernelGradients clean = RunKernel(*kernel, call);
    BackwardCall poisoned = call;
    RandomTensors copy(e, DType::kF32);
    poisoned.args.q = copy.call().args.q;
    poisoned.args.k = copy.call().args.k;
    poisoned.args.v = copy.call().args.v;
    poisoned.cotangents = copy.call().cotangents;
    for (int64_t h = 0; h < e.q_heads; ++h) {
      for (const int64_t i : {20, 69}) {
        Poison(copy.Row(poisoned.args.q, 0, h, i), e.dim);
        Poison(copy.Row(poisoned.cotangents.output, 0, h, i), e.v_dim);
      }
      for (const int64_t j : {0, 33, 75, 79}) {
        Poison(copy.Row(poisoned.args.k, 0, h, j), e.dim);
        Poison(copy.Row(poisoned.args.v, 0, h, j), e.v_dim);
      }
    }
    const KernelGradients got = RunKernel(*kernel, poisoned);
    EXPECT_EQ(got.q, clean.q);
    EXPECT_EQ(got.k, clean.k);
    EXPECT_EQ(got.v, clean.v);
    EXPECT_EQ(got.numbers.scale, clean.numbers.scale);
    EXPECT_EQ(got.nonfinite_outputs, 0);
  }
}

std::vector<bool> WhereFinite(const std::vector<double>& values) {
  std::vector<bool> finite;
  for (const double x : values) finite.push_back(std::isfinite(x));
  return finite;
}

TEST(BackwardKernelsTest, NaNThatIsSeenReachesTheSameGradientsInEveryKernel) {
  const Extents e{.q_heads = 1, .kv_heads = 1, .q_length = 70, .kv_length = 80};
  for (int tensor = 0; tensor < 4; ++tensor) {
    SCOPED_TRACE(tensor);
    RandomTensors tensors(e, DType::kF32);
    BackwardCall& call = tensors.call();
    call.spec.masks = {CausalMask{Alignment::kTopLeft}};
    const TensorView* views[] = {&call.args.q, &call.args.k, &call.args.v,
                                 &call.cotangents.output};
    tensors.Row(*views[tensor], 0, 0, 30)[3] = kNaN;
    const std::vector<const Kernel*> kernels = KernelsOf(call);
    ASSERT_EQ(kernels.size(), 2u);
    const KernelGradients got = RunKernel(*kernels[0], call);
    const KernelGradients want = RunKernel(*kernels[1], call);
    EXPECT_EQ(WhereFinite(got.q), WhereFinite(want.q));
    EXPECT_EQ(WhereFinite(got.k), WhereFinite(want.k));
    EXPECT_EQ(WhereFinite(got.v), WhereFinite(want.v));
    EXPECT_EQ(got.nonfinite_outputs, want.nonfinite_outputs);
    EXPECT_GT(got.nonfinite_outputs, 0);
  }
}

std::vector<double> Part(const std::vector<double>& values, size_t parts,
                         size_t part) {
  const size_t count = values.size() / parts;
  const auto begin = values.begin() + static_cast<int64_t>(part * count);
  return {begin, begin + static_cast<int64_t>(count)};
}

TEST(BackwardKernelsTest, BitsOfAnEntryAreTheSameAloneAndInABatch) {
  const Extents e{.batch = 3,
                  .q_heads = 8,
                  .kv_heads = 1,
                  .q_length = 130,
                  .kv_length = 70};
  RandomTensors tensors(e, DType::kF32);
  BackwardCall alone = tensors.call();
  for (TensorView* view : {&alone.args.q, &alone.args.k, &alone.args.v,
                           &alone.cotangents.output}) {
    const auto* second =
        reinterpret_cast<std::byte*>(tensors.Row(*view, 1, 0, 0));
    *view =
        TensorView::Dense(second, DType::kF32,
                          {1, view->shape[1], view->shape[2], view->shape[3]});
  }
  for (const Kernel* kernel : KernelsOf(alone)) {
    SCOPED_TRACE(kernel->name());
    const KernelGradients one = RunKernel(*kernel, alone);
    const KernelGradients all = RunKernel(*kernel, tensors.call());
    EXPECT_EQ(one.q, Part(all.q, 3, 1));
    EXPECT_EQ(one.k, Part(all.k, 3, 1));
    EXPECT_EQ(one.v, Part(all.v, 3, 1));
  }
}

TEST(BackwardKernelsTest, BitsDoNotDependOnThreads) {
  for (const Extents& e : kAwkward) {
    SCOPED_TRACE(absl::StrCat(e.q_length, " x ", e.kv_length));
    RandomTensors tensors(e, DType::kF32);
    const BackwardCall& call = tensors.call();
    std::vector<std::vector<float>> results;
    for (const int workers : {1, 3}) {
      std::vector<float> q(
          static_cast<size_t>(call.args.q.shape.element_count()));
      std::vector<float> k(
          static_cast<size_t>(call.args.k.shape.element_count()));
      std::vector<float> v(
          static_cast<size_t>(call.args.v.shape.element_count()));
      Engine engine({.workers = workers});
      const auto plan = engine.PlanBackward(call.spec, call.args,
                                            call.cotangents, call.wanted);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ((*plan)->kernel, "softmax_backward");
      const auto room = [](std::vector<float>& values, const Shape& shape) {
        return MutableTensorView::Dense(values.data(), DType::kF32, shape);
      };
      const CallReport report =
          engine.RunBackward(*plan, call.args, call.cotangents,
                             {room(q, call.args.q.shape),
                              room(k, call.args.k.shape),
                              room(v, call.args.v.shape),
                              {}});
      ASSERT_TRUE(report.status.ok()) << report.status;
      for (auto* values : {&q, &k, &v}) results.push_back(std::move(*values));
    }
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(results[i], results[i + 3]) << i;
  }
}

TEST(BackwardKernelsTest, WhatTheFastKernelRefusesIsSaidInWords) {
  const auto why_not = [](const AttentionSpec& spec, DType dtype) {
    RandomTensors tensors({.q_length = 3, .kv_length = 5}, dtype);
    tensors.spec() = spec;
    const BackwardCall& call = tensors.call();
    const auto problem =
        MakeBackwardProblem(spec, call.args, call.cotangents, call.wanted);
    EXPECT_TRUE(problem.ok()) << problem.status();
    for (const Kernel* kernel : BackwardKernelTable()) {
      if (kernel->name() == std::string("softmax_backward")) {
        return kernel->WhyNot(*problem);
      }
    }
    return std::string("no such kernel");
  };
  EXPECT_EQ(why_not({}, DType::kF32), "");
  EXPECT_EQ(why_not({}, DType::kF64),
            "accumulates in F32; F64 tensors need double");
  AttentionSpec sparse;
  sparse.normalizer = SparsemaxNormalizer{};
  EXPECT_EQ(why_not(sparse, DType::kF32),
            "the normalizer is neither softmax nor softmax_plus");
  AttentionSpec program;
  program.score_program = ProgramSpec{"score * 2", {}};
  EXPECT_EQ(why_not(program, DType::kF32), "programs go back in double");
  AttentionSpec large;
  large.score = DotScore{1e200, std::nullopt};
  EXPECT_EQ(why_not(large, DType::kF32), "no F32 holds scores of such a scale");
}

}  // namespace
}  // namespace attn::testing
