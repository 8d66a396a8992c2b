// Row statistics against the logits, weights and values that the same call
// reports.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/core/half.h"
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

// Weights that sum to something else than 1, some of them dropped.
SpecCall Make() {
  SpecCall call(kBatch, kHeads, kRows, kKeys);
  call.spec().masks = {CausalMask{Alignment::kTopLeft}};
  call.spec().temperatures = {0.5};
  call.spec().weight_program = ProgramSpec{"weight * weight * (1 + k)", {}};
  DropoutSpec dropout;
  dropout.p = 0.5;
  dropout.seed = 9;
  call.spec().dropout = dropout;
  return call;
}

double Norm(const SpecCall& call, int64_t plane, int64_t key) {
  double squares = 0;
  for (int64_t c = 0; c < kDim; ++c) {
    squares += std::pow(call.V(plane, key, c), 2);
  }
  return std::sqrt(squares);
}

// The formulas of the statistics, on row `row` of all.
RowStatistics Expected(const SpecCall& call, const SpecOutcome& outcome,
                       int64_t row) {
  const float* logits = outcome.masked_logits.data() + row * kKeys;
  const float* weights = outcome.weights.data() + row * kKeys;
  RowStatistics want;
  double sum = 0;
  for (int64_t j = 0; j < kKeys; ++j) {
    if (logits[j] == kMinusInfinity) continue;
    ++want.visible_keys;
    want.logit_mean += logits[j];
    sum += weights[j];
    want.contribution += weights[j] * Norm(call, row / kRows, j);
    if (weights[j] > want.peak_weight) {
      want.peak_weight = weights[j];
      want.top_key = j;
    }
  }
  const auto keys = static_cast<double>(want.visible_keys);
  want.logit_mean /= keys;
  double variance = 0;
  for (int64_t j = 0; j < kKeys; ++j) {
    if (logits[j] == kMinusInfinity) continue;
    variance += std::pow(logits[j] - want.logit_mean, 2) / keys;
    const double share = weights[j] / sum;
    if (share > 0) want.entropy -= share * std::log(share);
  }
  want.logit_std = std::sqrt(variance);
  return want;
}

TEST(StatisticsTest, AreThoseOfTheReportedWeights) {
  const SpecCall call = Make();
  for (const char* kernel : kKernels) {
    const SpecOutcome outcome = call.Run(kernel, 1, /*statistics=*/true);
    for (int64_t row = 0; row < kBatch * kHeads * kRows; ++row) {
      const RowStatistics& got = outcome.rows[static_cast<size_t>(row)];
      const RowStatistics want = Expected(call, outcome, row);
      ASSERT_EQ(got.visible_keys, want.visible_keys) << kernel << " " << row;
      ASSERT_EQ(got.top_key, want.top_key) << kernel << " " << row;
      ASSERT_NEAR(got.peak_weight, want.peak_weight, 1e-6) << row;
      ASSERT_NEAR(got.entropy, want.entropy, 1e-6) << row;
      ASSERT_NEAR(got.logit_mean, want.logit_mean, 1e-6) << row;
      ASSERT_NEAR(got.logit_std, want.logit_std, 1e-6) << row;
      ASSERT_NEAR(got.contribution, want.contribution, 1e-5) << row;
    }
  }
}

TEST(StatisticsTest, CostlyOnesComeOnlyIfAskedFor) {
  const SpecCall call = Make();
  for (const char* kernel : kKernels) {
    const SpecOutcome with = call.Run(kernel, 1, /*statistics=*/true);
    const SpecOutcome without = call.Run(kernel);
    EXPECT_EQ(without.rows[5].logit_mean, 0);
    EXPECT_EQ(without.rows[5].logit_std, 0);
    EXPECT_EQ(without.rows[5].contribution, 0);
    EXPECT_GT(with.rows[5].contribution, 0);
    EXPECT_EQ(without.rows[5].entropy, with.rows[5].entropy);
    EXPECT_EQ(without.output, with.output);
    EXPECT_EQ(without.weights, with.weights);
  }
}

TEST(StatisticsTest, BitsDoNotDependOnTheWorkers) {
  const SpecCall call = Make();
  for (const char* kernel : kKernels) {
    const SpecOutcome one = call.Run(kernel, 1, /*statistics=*/true);
    const SpecOutcome three = call.Run(kernel, 3, /*statistics=*/true);
    for (size_t i = 0; i < one.rows.size(); ++i) {
      ASSERT_EQ(one.rows[i].logit_mean, three.rows[i].logit_mean);
      ASSERT_EQ(one.rows[i].logit_std, three.rows[i].logit_std);
      ASSERT_EQ(one.rows[i].contribution, three.rows[i].contribution);
    }
  }
}

// How many logits of two queries and three keys of F16 are beyond F16, key 2
// being masked.
int64_t F16Overflows(const std::string& kernel, float q, float bias) {
  std::vector<uint16_t> queries(size_t{2} * kDim, ToF16(q));
  std::vector<uint16_t> keys(size_t{3} * kDim, ToF16(1));
  // Key 0 and the masked one: the dot product is kDim * 300 * q.
  std::fill_n(keys.begin(), kDim, ToF16(300));
  std::fill_n(keys.end() - kDim, kDim, ToF16(300));
  const std::vector<float> biases = {0, bias, 0};
  const std::vector<uint8_t> allowed = {1, 1, 0};
  AttentionArgs args;
  args.q = TensorView::Dense(queries.data(), DType::kF16, {1, 1, 2, kDim});
  args.k = TensorView::Dense(keys.data(), DType::kF16, {1, 1, 3, kDim});
  args.v = args.k;
  args.inputs = {TensorView::Dense(biases.data(), DType::kF32, {3}),
                 TensorView::Dense(allowed.data(), DType::kBool, {3})};
  AttentionSpec spec;
  spec.score = DotScore{.scale = 1.0, .learned_scale = {}};
  spec.biases = {DenseBias{0}};
  spec.masks = {DenseMask{1}};
  spec.temperatures = {10};
  Engine engine({.workers = 1});
  const auto plan =
      engine.Plan(spec, args, {.output = false}, DType::kF16, kernel);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return -1;
  return engine.Run(*plan, args, {}).f16_overflows;
}

TEST(StatisticsTest, LogitsBeyondF16AreCountedRawAndFinal) {
  for (const char* kernel : kKernels) {
    // 8 * 300 * 27 = 64800; 28 gives 67200, before the temperature.
    EXPECT_EQ(F16Overflows(kernel, 27, 0), 0);
    EXPECT_EQ(F16Overflows(kernel, 28, 0), 2);
    EXPECT_EQ(F16Overflows(kernel, 27, 1e6F), 2);
    EXPECT_EQ(F16Overflows(kernel, 28, 1e6F), 4);
  }
}

TEST(StatisticsTest, LinearAttentionHasNoLogits) {
  SpecCall call(1, 1, 5, 5);
  call.spec().normalizer = LinearNormalizer{};
  Engine engine({.workers = 1});
  const auto plan =
      engine.Plan(call.spec(), call.args(),
                  {.output = false, .statistics = true}, DType::kF32);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const CallReport report = engine.Run(*plan, call.args(), {});
  ASSERT_TRUE(report.status.ok());
  EXPECT_EQ(report.row_statistics[4].visible_keys, 5);
  EXPECT_EQ(report.row_statistics[4].logit_mean, 0);
  EXPECT_EQ(report.row_statistics[4].contribution, 0);
}

}  // namespace
}  // namespace attn::testing
