// Multi-head attention with its projections, against the formulas in double.
#include <string>

#include "engine/core/field_error.h"
#include "engine/projections/head_inputs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/projections/projection_call.h"

namespace attn::testing {
namespace {

using ::testing::HasSubstr;

// In: 24 wide; 4 query heads over 2 of keys and values; d_k 8, d_v 6; out 20.
struct Module {
  Numbers xq = SomeNumbers({2, 5, 24}, 1);
  Numbers xk = SomeNumbers({2, 7, 24}, 2);
  Numbers xv = SomeNumbers({2, 7, 10}, 3);
  Numbers wq = SomeNumbers({32, 24}, 4);
  Numbers wk = SomeNumbers({16, 24}, 5);
  Numbers wv = SomeNumbers({12, 10}, 6);
  Numbers wo = SomeNumbers({20, 24}, 7);
  Numbers bq = SomeNumbers({32}, 8);
  Numbers bk = SomeNumbers({16}, 9);
  Numbers bv = SomeNumbers({12}, 10);
  Numbers bo = SomeNumbers({20}, 11);

  static constexpr int64_t kHeads = 4;
  static constexpr int64_t kKvHeads = 2;

  Numbers Heads(bool biases) const {
    return Attended(ByHead(Through(xq, wq, biases ? &bq : nullptr), kHeads),
                    ByHead(Through(xk, wk, biases ? &bk : nullptr), kKvHeads),
                    ByHead(Through(xv, wv, biases ? &bv : nullptr), kKvHeads),
                    /*causal=*/true);
  }
  Numbers Output(bool biases) const {
    return Through(Joined(Heads(biases)), wo, biases ? &bo : nullptr);
  }
  void Fill(ProjectionCall& call, bool biases) const {
    call.args().q = call.Store(xq);
    call.args().k = call.Store(xk);
    call.args().v = call.Store(xv);
    ProjectionSpec& spec = call.projections();
    spec.query = call.AddLayer(wq, biases ? &bq : nullptr);
    spec.key = call.AddLayer(wk, biases ? &bk : nullptr);
    spec.value = call.AddLayer(wv, biases ? &bv : nullptr);
    spec.output = call.AddLayer(wo, biases ? &bo : nullptr);
    spec.q_heads = kHeads;
    spec.kv_heads = kKvHeads;
    call.spec().masks = {CausalMask{Alignment::kBottomRight}};
  }
};

double ToleranceOf(DType dtype) { return dtype == DType::kF64 ? 1e-11 : 2e-4; }

TEST(ProjectionsTest, AModuleIsItsLayersAroundItsHeads) {
  const Module module;
  for (const DType dtype :
       {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (const bool biases : {false, true}) {
      ProjectionCall call(dtype);
      module.Fill(call, biases);
      Numbers heads;
      const Numbers output = call.Run(1, &heads);
      EXPECT_LT(Distance(output, module.Output(biases)), ToleranceOf(dtype))
          << Name(dtype);
      EXPECT_LT(Distance(heads, module.Heads(biases)), ToleranceOf(dtype))
          << Name(dtype);
    }
  }
}

TEST(ProjectionsTest, EachPartMayComeByHeadInstead) {
  const Module module;
  const Numbers q = ByHead(Through(module.xq, module.wq, nullptr), 4);
  const Numbers k = ByHead(Through(module.xk, module.wk, nullptr), 2);
  const Numbers v = ByHead(Through(module.xv, module.wv, nullptr), 2);
  for (int without = 1; without < 16; ++without) {
    ProjectionCall call(DType::kF64);
    module.Fill(call, /*biases=*/false);
    ProjectionSpec& spec = call.projections();
    if ((without & 1) != 0) {
      spec.query.reset();
      call.args().q = call.Store(q);
    }
    if ((without & 2) != 0) {
      spec.key.reset();
      call.args().k = call.Store(k);
    }
    if ((without & 4) != 0) {
      spec.value.reset();
      call.args().v = call.Store(v);
    }
    if ((without & 8) != 0) spec.output.reset();
    if (without == 15) call.spec().projections.reset();
    const Numbers expected = (without & 8) != 0
                                 ? module.Heads(/*biases=*/false)
                                 : module.Output(/*biases=*/false);
    EXPECT_LT(Distance(call.Run(), expected), 1e-11) << without;
  }
}

TEST(ProjectionsTest, APartByHeadOfA16BitCallIsWidened) {
  const Module module;
  ProjectionCall call(DType::kBF16);
  module.Fill(call, /*biases=*/true);
  const Numbers v = SomeNumbers({2, 2, 7, 6}, 12);
  call.projections().value.reset();
  call.projections().output.reset();
  call.args().v = call.Store(v);
  const Numbers expected =
      Attended(ByHead(Through(module.xq, module.wq, &module.bq), 4),
               ByHead(Through(module.xk, module.wk, &module.bk), 2), v, true);
  EXPECT_LT(Distance(call.Run(), expected), 1e-4);
}

TEST(ProjectionsTest, KeysOfA16BitCallAreWidenedOnceOnly) {
  const Module module;
  ProjectionCall call(DType::kF16);
  module.Fill(call, /*biases=*/true);
  Engine engine({.workers = 1});
  const auto plan = call.MakePlan(engine);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Problem heads = HeadProblem((*plan)->problem);
  EXPECT_EQ(heads.dtype, DType::kF32);
  EXPECT_EQ(heads.kv_dtype, DType::kF32);
}

TEST(ProjectionsTest, LogitsBeyondF16OfProjectedRowsAreCounted) {
  ProjectionCall call(DType::kF16);
  // q = 256 * 256, k = 4: a logit of 2^18.
  call.args().q = call.Store({{1, 1, 1}, {256}});
  call.args().k = call.Store({{1, 1, 1, 1}, {4}});
  call.args().v = call.args().k;
  call.projections().query = call.AddLayer({{1, 1}, {256}}, nullptr);
  call.projections().q_heads = 1;
  EXPECT_EQ(call.Report({}, DType::kF16).f16_overflows, 1);
}

TEST(ProjectionsTest, AskingForTheHeadsDoesNotChangeWhatIsCounted) {
  ProjectionCall call(DType::kF16);
  call.spec().normalizer = IdentityNormalizer{};
  // A weight of 4 times 2^15 is no F16, times 1 it is.
  call.args().q = call.Store({{1, 1, 1, 1}, {2}});
  call.args().k = call.args().q;
  call.args().v = call.Store({{1, 1, 1, 2}, {32768, 1}});
  for (const bool output : {true, false}) {
    for (const bool heads : {true, false}) {
      OutputSelection selection;
      selection.output = output;
      selection.head_output = heads;
      EXPECT_EQ(call.Report(selection, DType::kF16).nonfinite_outputs,
                output || heads ? 1 : 0)
          << output << heads;
      EXPECT_EQ(call.Report(selection, DType::kF32).nonfinite_outputs, 0);
    }
  }
}

TEST(ProjectionsTest, BitsDoNotDependOnWorkersOrCompany) {
  // More than one block of rows and of columns.
  const Numbers x = SomeNumbers({2, 70, 40}, 1);
  const Numbers w = SomeNumbers({320, 40}, 2);
  const Numbers wo = SomeNumbers({300, 320}, 3);
  const auto fill = [&](ProjectionCall& call, const Numbers& tokens) {
    call.args().q = call.Store(tokens);
    call.args().k = call.args().q;
    call.args().v = call.args().q;
    ProjectionSpec& spec = call.projections();
    spec.query = call.AddLayer(w, nullptr);
    spec.key = spec.query;
    spec.value = spec.query;
    spec.output = call.AddLayer(wo, nullptr);
    spec.q_heads = 5;
  };
  ProjectionCall call(DType::kF32);
  fill(call, x);
  const std::vector<double> alone = call.Output(1);
  EXPECT_EQ(alone, call.Output(4));
  Numbers second{{1, 70, 40}, {}};
  second.values.assign(x.values.begin() + 70 * 40, x.values.end());
  ProjectionCall part(DType::kF32);
  fill(part, second);
  EXPECT_EQ(part.Output(1),
            std::vector<double>(alone.begin() + 70 * 300, alone.end()));
}

TEST(ProjectionsTest, PaddedRowsAreZeroAndEmptyRowsTheBias) {
  const Module module;
  ProjectionCall call(DType::kF32);
  module.Fill(call, /*biases=*/true);
  call.args().q_lengths = {5, 3};
  call.args().kv_lengths = {0, 7};
  call.spec().masks.clear();
  const Numbers output = call.Run();
  for (size_t row = 0; row < 5; ++row) {
    for (size_t o = 0; o < 20; ++o) {
      EXPECT_EQ(output.values[row * 20 + o], module.bo.values[o]);
    }
  }
  for (size_t i = (5 + 3) * 20; i < output.values.size(); ++i) {
    EXPECT_EQ(output.values[i], 0.0);
  }
}

TEST(ProjectionsTest, WhatAMaskedTokenHoldsReachesNoOutput) {
  const Module module;
  ProjectionCall call(DType::kF32);
  module.Fill(call, /*biases=*/true);
  call.args().kv_lengths = {6, 7};
  const std::vector<double> clean = call.Output();
  Module poisoned = module;
  for (size_t i = 6 * 24; i < 7 * 24; ++i) {
    poisoned.xk.values[i] = std::numeric_limits<double>::quiet_NaN();
  }
  call.args().k = call.Store(poisoned.xk);
  EXPECT_EQ(clean, call.Output());
}

TEST(ProjectionsTest, ThePlanTellsLayersAndWork) {
  const Module module;
  ProjectionCall call(DType::kF32);
  module.Fill(call, /*biases=*/true);
  Engine engine({.workers = 1});
  const auto plan = call.MakePlan(engine);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT((*plan)->pipeline, HasSubstr("project q, k, v -> dot"));
  EXPECT_THAT((*plan)->pipeline, HasSubstr("-> project output"));
  // Multiply and add of each layer, for two batch entries.
  const double layers =
      2.0 * 2 * (5 * 32 * 24 + 7 * 16 * 24 + 7 * 12 * 10 + 5 * 20 * 24);
  call.spec().projections.reset();
  call.args().q = call.Store(SomeNumbers({2, 4, 5, 8}, 1));
  call.args().k = call.Store(SomeNumbers({2, 2, 7, 8}, 1));
  call.args().v = call.Store(SomeNumbers({2, 2, 7, 6}, 1));
  const auto heads = call.MakePlan(engine);
  ASSERT_TRUE(heads.ok());
  EXPECT_EQ((*plan)->flops, (*heads)->flops + layers);
}

std::string RefusedField(const ProjectionCall& call) {
  Engine engine({.workers = 1});
  return FieldOf(call.MakePlan(engine).status()).value_or("none");
}

TEST(ProjectionsTest, WhatDoesNotFitIsNamed) {
  const Module module;
  const auto changed = [&module](auto change) {
    ProjectionCall call(DType::kF32);
    module.Fill(call, /*biases=*/true);
    change(call);
    return RefusedField(call);
  };
  using Call = ProjectionCall;
  EXPECT_EQ(changed([](Call& c) { c.projections().q_heads = 0; }),
            "spec.projections.q_heads");
  EXPECT_EQ(changed([](Call& c) { c.projections().kv_heads = 3; }),
            "spec.projections.kv_heads");
  EXPECT_EQ(changed([](Call& c) { c.projections().q_heads = 6; }),
            "spec.projections.query.weight.input");
  EXPECT_EQ(changed([](Call& c) { c.projections().query->weight = 99; }),
            "spec.projections.query.weight.input");
  EXPECT_EQ(changed([](Call& c) { c.projections().key->bias = 0; }),
            "spec.projections.key.bias.input");
  // Input 4 is the weight of the values, [12, 10].
  EXPECT_EQ(changed([](Call& c) {
              c.projections().output = {.weight = 4, .bias = std::nullopt};
            }),
            "spec.projections.output.weight.input");
  EXPECT_EQ(changed([](Call& c) {
              c.args().q = c.Store(SomeNumbers({2, 5, 23}, 1));
            }),
            "q.shape");
  EXPECT_EQ(changed([](Call& c) {
              c.args().v = c.Store(SomeNumbers({2, 2, 7, 6}, 1));
            }),
            "v.shape");
  EXPECT_EQ(changed([](Call& c) { c.args().q_offsets = {0, 1}; }), "q_offsets");
  EXPECT_EQ(changed([](Call& c) {
              c.args().kv_offsets = {0, 1};
            }),
            "kv_offsets");
  EXPECT_EQ(changed([](Call& c) { c.spec().projections = ProjectionSpec(); }),
            "spec.projections");
}

}  // namespace
}  // namespace attn::testing
