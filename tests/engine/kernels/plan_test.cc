#include "engine/plan/plan.h"

#include <algorithm>

#include "engine/core/field_error.h"
#include "engine/plan/cost.h"
#include "engine/plan/plan_cache.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

Problem SomeProblem() {
  Problem problem;
  problem.shape = {.batch = 2,
                   .q_heads = 4,
                   .kv_heads = 2,
                   .q_length = 10,
                   .kv_length = 10,
                   .q_dim = 8,
                   .k_dim = 8,
                   .v_dim = 16};
  return problem;
}

TEST(PlanTest, TakesTheFirstKernelThatSupportsTheProblem) {
  const auto plan = MakePlan(SomeProblem());
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ((*plan)->verdicts.size(), KernelTable().size());
  const auto first =
      std::find_if((*plan)->verdicts.begin(), (*plan)->verdicts.end(),
                   [](const KernelVerdict& v) { return v.why_not.empty(); });
  ASSERT_NE(first, (*plan)->verdicts.end());
  EXPECT_EQ((*plan)->kernel, first->kernel);
  EXPECT_EQ((*plan)->kernel, "flash_simd");
  EXPECT_GT((*plan)->tile_jobs(), 0);
}

TEST(PlanTest, DoubleGoesToTheReferenceAndTheOthersSayWhy) {
  Problem problem = SomeProblem();
  problem.dtype = DType::kF64;
  problem.output_dtype = DType::kF64;
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->kernel, "reference");
  for (const KernelVerdict& verdict : (*plan)->verdicts) {
    EXPECT_EQ(verdict.why_not.empty(), verdict.kernel == "reference");
  }
}

// A late call is cancelled between two jobs, so that none may be long.
// Of few rows and few key elements, but with wide values: once a single job.
TEST(PlanTest, NoJobOfWideValuesIsLong) {
  Problem problem = SomeProblem();
  problem.kernel = "flash_simd";
  problem.shape.q_length = 512;
  problem.shape.kv_length = 12000;
  problem.shape.q_dim = problem.shape.k_dim = 8;
  problem.shape.v_dim = 1024;
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Two for each multiplication.
  EXPECT_LE((*plan)->flops / static_cast<double>((*plan)->tile_jobs()),
            2 * 0x1p28);
}

TEST(PlanTest, NoJobOfALongLinearCallIsLong) {
  Problem problem = SomeProblem();
  problem.spec.normalizer = LinearNormalizer{};
  problem.shape.q_length = problem.shape.kv_length = 1 << 14;
  problem.shape.q_dim = problem.shape.k_dim = problem.shape.v_dim = 64;
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE((*plan)->flops / static_cast<double>((*plan)->tile_jobs()), 0x1p21);
}

TEST(PlanTest, NamedKernelRuns) {
  Problem problem = SomeProblem();
  problem.kernel = "reference";
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->kernel, "reference");
}

TEST(PlanTest, UnknownKernelIsRefusedWithTheKnownOnes) {
  Problem problem = SomeProblem();
  problem.kernel = "abacus";
  const auto plan = MakePlan(problem);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(plan.status()), "kernel");
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("reference"));
}

TEST(PlanTest, NamedKernelThatCannotIsRefusedWithItsReason) {
  Problem problem = SomeProblem();
  problem.dtype = DType::kF64;
  problem.kernel = "rowwise";
  const auto plan = MakePlan(problem);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(plan.status()), "kernel");
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("F64"));
}

TEST(PlanTest, StagesAreChecked) {
  Problem problem = SomeProblem();
  problem.spec.biases.emplace_back(DenseBias{3});
  EXPECT_EQ(MakePlan(problem).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CostTest, CountsTheKeysThatRowsSee) {
  Problem problem = SomeProblem();
  EXPECT_EQ(VisiblePairs(problem), 2 * 4 * 10 * 10);
  problem.spec.masks = {CausalMask{Alignment::kTopLeft}};
  EXPECT_EQ(VisiblePairs(problem), 2 * 4 * (10 * 11 / 2));
  // One key before and the query's own: two but for the first row.
  problem.spec.masks.emplace_back(
      WindowMask{.left = 1, .right = {}, .alignment = Alignment::kTopLeft});
  EXPECT_EQ(VisiblePairs(problem), 2 * 4 * 19);
}

// n (n + 1) / 2 of a causal mask, from some thousand rows.
TEST(CostTest, PairsOfALongCallAreCloseWithoutALookAtEachRow) {
  Problem problem = SomeProblem();
  problem.shape.q_length = int64_t{1} << 30;
  problem.shape.kv_length = int64_t{1} << 30;
  problem.spec.masks.emplace_back(CausalMask{Alignment::kTopLeft});
  EXPECT_NEAR(VisiblePairs(problem) / (8 * 0x1p59), 1, 1e-6);
}

// Two products of d_k x d_v for each key and query.
TEST(CostTest, NoQueriesCostNothingAlsoBehindAMask) {
  Problem problem = SomeProblem();
  problem.spec.masks = {CausalMask{Alignment::kTopLeft}};
  problem.shape.q_length = 0;
  EXPECT_EQ(VisiblePairs(problem), 0);
  EXPECT_EQ(Flops(problem), 0);
}

TEST(CostTest, FlopsOfLinearAttentionGrowWithTheLength) {
  Problem problem = SomeProblem();
  problem.spec.normalizer = LinearNormalizer{};
  EXPECT_EQ(Flops(problem), 2.0 * 2 * (8 * 16) * (2 * 10 + 4 * 10));
}

TEST(CostTest, FlopsAreTwoProductsOfMultiplyAndAdd) {
  Problem problem = SomeProblem();
  EXPECT_EQ(Flops(problem), 800 * 2 * (8 + 16));
  problem.outputs.output = false;
  EXPECT_EQ(Flops(problem), 800 * 2 * 8);
}

TEST(CostTest, BytesAreThoseOfTheTensors) {
  Problem problem = SomeProblem();
  problem.dtype = DType::kBF16;
  problem.kv_dtype = DType::kBF16;
  problem.inputs.push_back({DType::kBool, {10, 10}});
  const int64_t q = 2 * 4 * 10 * 8 * 2;
  const int64_t kv = 2 * 2 * 10 * (8 + 16) * 2;
  const int64_t output = 2 * 4 * 10 * 16 * 4;
  EXPECT_EQ(TensorBytes(problem), q + kv + 100 + output);
  problem.outputs.weights = true;
  EXPECT_EQ(TensorBytes(problem), q + kv + 100 + output + 800 * 4);
}

TEST(PlanCacheTest, EqualProblemsShareAPlan) {
  PlanCache cache(4);
  const auto first = cache.Get(SomeProblem());
  const auto second = cache.Get(SomeProblem());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(cache.counts().hits, 1);
  EXPECT_EQ(cache.counts().misses, 1);
}

TEST(PlanCacheTest, LeastRecentlyUsedPlanGoesFirst) {
  PlanCache cache(2);
  Problem problems[3] = {SomeProblem(), SomeProblem(), SomeProblem()};
  for (int i = 0; i < 3; ++i) problems[i].shape.batch = i + 1;
  const auto first = cache.Get(problems[0]);
  const auto second = cache.Get(problems[1]);
  ASSERT_TRUE(cache.Get(problems[0]).ok());  // makes the second the oldest
  ASSERT_TRUE(cache.Get(problems[2]).ok());
  EXPECT_EQ(*cache.Get(problems[0]), *first);
  EXPECT_NE(*cache.Get(problems[1]), *second);
}

TEST(PlanCacheTest, ErrorsAreNotKept) {
  PlanCache cache(2);
  Problem problem = SomeProblem();
  problem.kernel = "abacus";
  EXPECT_FALSE(cache.Get(problem).ok());
  EXPECT_FALSE(cache.Get(problem).ok());
  EXPECT_EQ(cache.counts().misses, 2);
}

}  // namespace
}  // namespace attn
