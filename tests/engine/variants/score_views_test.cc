// Windows of scores, and what stands beside the weights in them.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/core/field_error.h"
#include "gtest/gtest.h"
#include "tests/engine/variants/spec_call.h"

namespace attn::testing {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int64_t kBatch = 2;
constexpr int64_t kHeads = 2;
constexpr int64_t kRows = 70;
constexpr int64_t kKeys = 33;
constexpr int64_t kDim = SpecCall::kDim;
const char* const kKernels[] = {"rowwise", "reference"};

const ScoreWindow kWhole{{0, kBatch}, {0, kHeads}, {0, kRows}, {0, kKeys}};

// The five tensors that a window cuts.
struct Views {
  std::vector<float> logits;
  std::vector<float> masked_logits;
  std::vector<float> weights;
  std::vector<float> contribution;
  std::vector<float> gradient_weight;
};

Shape ShapeOf(const ScoreWindow& window) {
  return {window.batch.size(), window.head.size(), window.query.size(),
          window.key.size()};
}

SpecCall Make() {
  SpecCall call(kBatch, kHeads, kRows, kKeys);
  call.spec().masks = {CausalMask{Alignment::kTopLeft}};
  call.args().kv_lengths = {kKeys, kKeys - 5};
  call.args().q_lengths = {kRows - 3, kRows};
  std::vector<float> cotangent;
  for (int64_t i = 0; i < kBatch * kHeads * kRows * kDim; ++i) {
    cotangent.push_back(
        static_cast<float>(std::cos(0.37 * static_cast<double>(i))));
  }
  call.AddInput<float>(DType::kF32, {kBatch, kHeads, kRows, kDim}, cotangent);
  call.args().d_output = call.args().inputs.back();
  return call;
}

Views ViewsOf(const SpecCall& call, const std::string& kernel,
              const ScoreWindow& window, const AttentionArgs& args) {
  Engine engine({.workers = 2});
  const auto plan = engine.Plan(call.spec(), args,
                                {.output = false,
                                 .logits = true,
                                 .masked_logits = true,
                                 .weights = true,
                                 .statistics = true,
                                 .contribution = true,
                                 .gradient_weight = true},
                                DType::kF32, kernel);
  EXPECT_TRUE(plan.ok()) << plan.status();
  Views views;
  if (!plan.ok()) return views;
  const Shape shape = ShapeOf(window);
  AttentionOutputs outputs;
  outputs.window = window;
  const auto room = [&shape](std::vector<float>& values) {
    // One element more, so that an empty window has memory.
    values.assign(static_cast<size_t>(shape.element_count()) + 1, -77.0F);
    return MutableTensorView::Dense(values.data(), DType::kF32, shape);
  };
  outputs.logits = room(views.logits);
  outputs.masked_logits = room(views.masked_logits);
  outputs.weights = room(views.weights);
  outputs.contribution = room(views.contribution);
  outputs.gradient_weight = room(views.gradient_weight);
  const CallReport report = engine.Run(*plan, args, outputs);
  EXPECT_TRUE(report.status.ok()) << report.status;
  return views;
}

Views ViewsOf(SpecCall& call, const std::string& kernel,
              const ScoreWindow& window) {
  return ViewsOf(call, kernel, window, call.args());
}

int64_t IndexOf(int64_t b, int64_t h, int64_t i, int64_t j) {
  return ((b * kHeads + h) * kRows + i) * kKeys + j;
}

// The elements of a whole tensor that lie in `window`, and the sentinel.
std::vector<float> Slice(const std::vector<float>& whole,
                         const ScoreWindow& window) {
  std::vector<float> slice;
  for (int64_t b = window.batch.begin; b < window.batch.end; ++b) {
    for (int64_t h = window.head.begin; h < window.head.end; ++h) {
      for (int64_t i = window.query.begin; i < window.query.end; ++i) {
        for (int64_t j = window.key.begin; j < window.key.end; ++j) {
          slice.push_back(whole[static_cast<size_t>(IndexOf(b, h, i, j))]);
        }
      }
    }
  }
  slice.push_back(-77);
  return slice;
}

TEST(ScoreViewsTest, AWindowIsTheSliceOfTheWholeBitByBit) {
  SpecCall call = Make();
  const ScoreWindow windows[] = {
      {{0, 2}, {0, 2}, {0, 70}, {0, 33}},  {{1, 2}, {0, 1}, {3, 69}, {5, 6}},
      {{0, 1}, {1, 2}, {60, 70}, {0, 33}}, {{0, 2}, {0, 2}, {0, 5}, {28, 33}},
      {{0, 2}, {0, 2}, {7, 7}, {0, 33}},   {{0, 1}, {0, 1}, {0, 70}, {9, 9}}};
  for (const char* kernel : kKernels) {
    const Views whole = ViewsOf(call, kernel, kWhole);
    for (const ScoreWindow& window : windows) {
      const Views part = ViewsOf(call, kernel, window);
      EXPECT_EQ(part.logits, Slice(whole.logits, window));
      EXPECT_EQ(part.masked_logits, Slice(whole.masked_logits, window));
      EXPECT_EQ(part.weights, Slice(whole.weights, window));
      EXPECT_EQ(part.contribution, Slice(whole.contribution, window));
      EXPECT_EQ(part.gradient_weight, Slice(whole.gradient_weight, window));
    }
  }
}

TEST(ScoreViewsTest, TheWholeIsWhatACallWithoutAWindowGives) {
  SpecCall call = Make();
  for (const char* kernel : kKernels) {
    Views views = ViewsOf(call, kernel, kWhole);
    views.weights.pop_back();
    views.masked_logits.pop_back();
    const SpecOutcome outcome = call.Run(kernel);
    EXPECT_EQ(views.weights, outcome.weights);
    EXPECT_EQ(views.masked_logits, outcome.masked_logits);
  }
}

// <cotangent row, value row> and |value|.
double Cotangent(const SpecCall& call, const AttentionArgs& args, int64_t plane,
                 int64_t i, int64_t j) {
  const auto* d = reinterpret_cast<const float*>(args.d_output.data);
  double sum = 0;
  for (int64_t c = 0; c < kDim; ++c) {
    sum += double{d[(plane * kRows + i) * kDim + c]} * call.V(plane, j, c);
  }
  return sum;
}

double Norm(const SpecCall& call, int64_t plane, int64_t j) {
  double squares = 0;
  for (int64_t c = 0; c < kDim; ++c) {
    squares += std::pow(call.V(plane, j, c), 2);
  }
  return std::sqrt(squares);
}

// Calls `check` with plane, row, key and index of every element.
template <typename Check>
void ForEachScore(Check check) {
  for (int64_t plane = 0; plane < kBatch * kHeads; ++plane) {
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kKeys; ++j) {
        check(plane, i, j,
              static_cast<size_t>((plane * kRows + i) * kKeys + j));
      }
    }
  }
}

TEST(ScoreViewsTest, ContributionIsWeightTimesNormOfTheValue) {
  SpecCall call = Make();
  for (const char* kernel : kKernels) {
    const Views views = ViewsOf(call, kernel, kWhole);
    ForEachScore([&](int64_t plane, int64_t, int64_t j, size_t at) {
      ASSERT_NEAR(views.contribution[at],
                  views.weights[at] * Norm(call, plane, j), 1e-5);
    });
  }
}

TEST(ScoreViewsTest, GradientWeightIsWeightTimesItsDerivative) {
  SpecCall call = Make();
  const uint32_t gate = call.AddInput<float>(DType::kF32, {kHeads}, {2, -0.5F});
  call.spec().head_gate = gate;
  for (const char* kernel : kKernels) {
    const Views views = ViewsOf(call, kernel, kWhole);
    ForEachScore([&](int64_t plane, int64_t i, int64_t j, size_t at) {
      const double factor = plane % kHeads == 0 ? 2 : -0.5;
      ASSERT_NEAR(views.gradient_weight[at],
                  views.weights[at] * factor *
                      Cotangent(call, call.args(), plane, i, j),
                  1e-5);
    });
  }
}

// d loss / d weight by the formula of the output: with keep bits b and sum S of
// the kept weights, output = sum b w v / S if renormalised.
TEST(ScoreViewsTest, GradientWeightGoesThroughDropout) {
  for (const bool renormalize : {false, true}) {
    SpecCall call = Make();
    DropoutSpec dropout;
    dropout.p = 0.25;
    dropout.seed = 5;
    dropout.renormalize = renormalize;
    call.spec().dropout = dropout;
    for (const char* kernel : kKernels) {
      const Views views = ViewsOf(call, kernel, kWhole);
      const SpecOutcome outcome = call.Run(kernel);
      for (int64_t row = 0; row < kBatch * kHeads * kRows; ++row) {
        const int64_t plane = row / kRows;
        double kept_sum = 0;
        double mean = 0;
        for (int64_t j = 0; j < kKeys; ++j) {
          const auto at = static_cast<size_t>(row * kKeys + j);
          if (outcome.keep[at] == 0 || views.weights[at] == 0) continue;
          kept_sum += views.weights[at];
          mean += views.weights[at] *
                  Cotangent(call, call.args(), plane, row % kRows, j);
        }
        if (kept_sum > 0) mean /= kept_sum;
        for (int64_t j = 0; j < kKeys; ++j) {
          const auto at = static_cast<size_t>(row * kKeys + j);
          double want = 0;
          if (outcome.keep[at] != 0 && views.weights[at] != 0) {
            const double g =
                Cotangent(call, call.args(), plane, row % kRows, j);
            want = renormalize ? views.weights[at] / kept_sum * (g - mean)
                               : views.weights[at] / 0.75 * g;
          }
          ASSERT_NEAR(views.gradient_weight[at], want, 2e-5)
              << kernel << " row " << row << " key " << j;
        }
      }
    }
  }
}

TEST(ScoreViewsTest, ExcludedKeysAreZeroAndTheirValuesDoNotMatter) {
  SpecCall call = Make();
  // The last key of batch entry 1 is beyond its length.
  std::vector<float> poisoned;
  for (int64_t i = 0; i < kBatch * kHeads * kKeys * kDim; ++i) {
    const bool beyond =
        i / (kHeads * kKeys * kDim) == 1 && i / kDim % kKeys >= kKeys - 5;
    poisoned.push_back(
        beyond ? NAN : call.V(i / (kKeys * kDim), i / kDim % kKeys, i % kDim));
  }
  call.AddInput<float>(DType::kF32, {kBatch, kHeads, kKeys, kDim}, poisoned);
  AttentionArgs args = call.args();
  args.v = args.inputs.back();
  for (const char* kernel : kKernels) {
    const Views clean = ViewsOf(call, kernel, kWhole);
    const Views views = ViewsOf(call, kernel, kWhole, args);
    EXPECT_EQ(views.contribution, clean.contribution);
    EXPECT_EQ(views.gradient_weight, clean.gradient_weight);
    ForEachScore([&](int64_t, int64_t, int64_t, size_t at) {
      if (views.masked_logits[at] != kMinusInfinity) return;
      ASSERT_EQ(views.contribution[at], 0);
      ASSERT_EQ(views.gradient_weight[at], 0);
    });
  }
}

TEST(ScoreViewsTest, ACotangentOfAnotherShapeIsRefused) {
  SpecCall call = Make();
  call.args().d_output = call.args().v;
  Engine engine({.workers = 1});
  const auto plan = engine.Plan(call.spec(), call.args(),
                                {.gradient_weight = true}, DType::kF32);
  EXPECT_EQ(FieldOf(plan.status()), "d_output.shape");
}

}  // namespace
}  // namespace attn::testing
