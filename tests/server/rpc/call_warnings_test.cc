// Each warning appears, and its near miss does not.
#include "server/rpc/call_warnings.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

namespace wire = ::attention::v1;
using ::testing::HasSubstr;

Plan DotPlan(int64_t dim) {
  Plan plan;
  plan.problem.shape = {.batch = 1,
                        .q_heads = 2,
                        .kv_heads = 2,
                        .q_length = 8,
                        .kv_length = 8,
                        .q_dim = dim,
                        .k_dim = dim,
                        .v_dim = dim};
  return plan;
}

// The only warning; UNSPECIFIED if there is none.
wire::Warning Only(const std::vector<wire::Warning>& warnings) {
  EXPECT_LE(warnings.size(), 1);
  return warnings.empty() ? wire::Warning() : warnings[0];
}

TEST(CallWarningsTest, AScaleOfOneOverTheWidthLooksAppliedTwice) {
  Plan plan = DotPlan(64);
  const auto kind = [&plan](double scale) {
    plan.problem.spec.score = DotScore{.scale = scale, .learned_scale = {}};
    return Only(CallWarnings(plan, {})).kind();
  };
  EXPECT_EQ(kind(1.0 / 64), wire::WARNING_KIND_DOUBLE_SCALING);
  EXPECT_EQ(kind(1.05 / 64), wire::WARNING_KIND_DOUBLE_SCALING);
  EXPECT_EQ(kind(1.0 / 8), wire::WARNING_KIND_UNSPECIFIED);
  EXPECT_EQ(kind(1.2 / 64), wire::WARNING_KIND_UNSPECIFIED);
  EXPECT_EQ(kind(0), wire::WARNING_KIND_UNSPECIFIED);
  plan.problem.spec.score = DotScore{.scale = 1.0 / 64, .learned_scale = {}};
  EXPECT_THAT(Only(CallWarnings(plan, {})).message(),
              HasSubstr("1/sqrt(d_k) = 0.125"));
}

TEST(CallWarningsTest, OtherScoresAndWidthsAreNotTakenForScaledTwice) {
  Plan plan = DotPlan(1);
  plan.problem.spec.score = DotScore{.scale = 1.0, .learned_scale = {}};
  EXPECT_TRUE(CallWarnings(plan, {}).empty());
  plan = DotPlan(64);
  EXPECT_TRUE(CallWarnings(plan, {}).empty());
  plan.problem.spec.score = CosineScore{.scale = 1.0 / 64, .learned_scale = {}};
  EXPECT_TRUE(CallWarnings(plan, {}).empty());
}

TEST(CallWarningsTest, CountersAreNamed) {
  const Plan plan = DotPlan(64);
  CallReport report;
  report.f16_overflows = 3;
  EXPECT_EQ(Only(CallWarnings(plan, report)).kind(),
            wire::WARNING_KIND_F16_OVERFLOW);
  EXPECT_EQ(Only(CallWarnings(plan, report)).count(), 3);
  report = {};
  report.fully_masked_rows = 1;
  EXPECT_EQ(Only(CallWarnings(plan, report)).kind(),
            wire::WARNING_KIND_FULLY_MASKED_ROWS);
  EXPECT_THAT(Only(CallWarnings(plan, report)).message(), HasSubstr("1 row "));
}

TEST(CallWarningsTest, EachTensorThatIsNotFiniteHasItsOwn) {
  const Plan plan = DotPlan(64);
  CallReport report;
  report.nonfinite_q = 1;
  report.nonfinite_v = 7;
  const auto warnings = CallWarnings(plan, report);
  ASSERT_EQ(warnings.size(), 2);
  EXPECT_EQ(warnings[0].kind(), wire::WARNING_KIND_NONFINITE_INPUT);
  EXPECT_EQ(warnings[0].tensor(), "q");
  EXPECT_EQ(warnings[1].tensor(), "v");
  EXPECT_EQ(warnings[1].count(), 7);
}

HeadStatistics SomeHead() {
  HeadStatistics head;
  head.rows = 8;
  head.mean_visible_keys = 8;
  head.logit_std = 1;
  return head;
}

TEST(CallWarningsTest, SaturatedHeadsAreCountedFromTheirShareOn) {
  std::vector<HeadStatistics> heads(2, SomeHead());
  heads[1].saturated_share = 0.9;
  const auto warnings = HeadWarnings(heads, DotPlan(64).problem.shape);
  EXPECT_EQ(Only(warnings).kind(), wire::WARNING_KIND_SATURATED_HEAD);
  EXPECT_EQ(Only(warnings).count(), 1);
  EXPECT_THAT(Only(warnings).message(), HasSubstr("batch 0 head 1"));
  heads[1].saturated_share = 0.899;
  EXPECT_TRUE(HeadWarnings(heads, DotPlan(64).problem.shape).empty());
}

TEST(CallWarningsTest, DeadHeadsComeWithTheirReason) {
  std::vector<HeadStatistics> heads(2, SomeHead());
  EXPECT_TRUE(HeadWarnings(heads, DotPlan(64).problem.shape).empty());
  heads[0].dead = DeadHead::kConstantLogits;
  heads[0].dead_reason = "every visible logit is 0";
  const auto warnings = HeadWarnings(heads, DotPlan(64).problem.shape);
  EXPECT_EQ(Only(warnings).kind(), wire::WARNING_KIND_DEAD_HEAD);
  EXPECT_THAT(Only(warnings).message(), HasSubstr("every visible logit is 0"));
}

// Rows of independent N(0, 1) elements have |q| = |k| = 8 at d_k = 64, and
// their dot products a deviation of 8.
constexpr InputNorms kNormal{.q = 8, .k = 8};

wire::WarningKind KindOf(const std::optional<wire::Warning>& warning) {
  return warning ? warning->kind() : wire::WARNING_KIND_UNSPECIFIED;
}

TEST(CallWarningsTest, LogitsFarBelowTheNormsLookScaledTwice) {
  const Plan plan = DotPlan(64);
  std::vector<HeadStatistics> heads(2, SomeHead());
  const auto kind = [&](double deviation) {
    for (HeadStatistics& head : heads) head.logit_std = deviation;
    return KindOf(SmallLogitsWarning(plan, heads, kNormal));
  };
  EXPECT_EQ(kind(8.0 / 64), wire::WARNING_KIND_DOUBLE_SCALING);
  EXPECT_EQ(kind(8.0 / 8), wire::WARNING_KIND_UNSPECIFIED);
  // 2 / d_k of |q| |k| / sqrt(d_k) = 8.
  EXPECT_EQ(kind(0.249), wire::WARNING_KIND_DOUBLE_SCALING);
  EXPECT_EQ(kind(0.251), wire::WARNING_KIND_UNSPECIFIED);
  EXPECT_EQ(kind(0), wire::WARNING_KIND_UNSPECIFIED);
}

TEST(CallWarningsTest, ATemperatureIsNotASecondScale) {
  Plan plan = DotPlan(64);
  std::vector<HeadStatistics> heads(2, SomeHead());
  plan.problem.spec.temperatures = {10};
  for (HeadStatistics& head : heads) head.logit_std = 1.0 / 10;
  EXPECT_FALSE(SmallLogitsWarning(plan, heads, kNormal).has_value());
}

TEST(CallWarningsTest, LogitsThatAreMoreThanScoresAreNotJudgedByNorms) {
  std::vector<HeadStatistics> heads(2, SomeHead());
  for (HeadStatistics& head : heads) head.logit_std = 0.1;
  const auto kind = [&](auto change) {
    Plan plan = DotPlan(64);
    change(plan.problem.spec);
    return KindOf(SmallLogitsWarning(plan, heads, kNormal));
  };
  EXPECT_EQ(kind([](AttentionSpec&) {}), wire::WARNING_KIND_DOUBLE_SCALING);
  EXPECT_EQ(kind([](AttentionSpec& s) { s.softcap = 1; }),
            wire::WARNING_KIND_UNSPECIFIED);
  EXPECT_EQ(kind([](AttentionSpec& s) { s.biases = {AlibiBias{}}; }),
            wire::WARNING_KIND_UNSPECIFIED);
  EXPECT_EQ(kind([](AttentionSpec& s) { s.transforms = {NormTransform{}}; }),
            wire::WARNING_KIND_UNSPECIFIED);
  EXPECT_EQ(kind([](AttentionSpec& s) { s.score = CosineScore{}; }),
            wire::WARNING_KIND_UNSPECIFIED);
  Plan narrow = DotPlan(4);
  EXPECT_FALSE(SmallLogitsWarning(narrow, heads, kNormal).has_value());
}

wire::WarningKind AlikeOf(const std::vector<float>& weights, const Shape& shape,
                          const HeadStatistics& head) {
  const std::vector<HeadStatistics> heads(static_cast<size_t>(shape[1]), head);
  return KindOf(HeadsAlikeWarning(
      TensorView::Dense(weights.data(), DType::kF32, shape), heads));
}

TEST(CallWarningsTest, HeadsOfTheSameWeightsAreAlike) {
  const Shape shape = {1, 2, 1, 2};
  const HeadStatistics head = SomeHead();
  EXPECT_EQ(AlikeOf({0.25F, 0.75F, 0.25F, 0.7500005F}, shape, head),
            wire::WARNING_KIND_HEADS_ALIKE);
  EXPECT_EQ(AlikeOf({0.25F, 0.75F, 0.25001F, 0.75F}, shape, head),
            wire::WARNING_KIND_UNSPECIFIED);
  EXPECT_EQ(AlikeOf({NAN, 0.75F, NAN, 0.75F}, shape, head),
            wire::WARNING_KIND_UNSPECIFIED);
}

TEST(CallWarningsTest, OneHeadOrNoChoiceTellsNothing) {
  EXPECT_EQ(AlikeOf({0.5F, 0.5F}, {1, 1, 1, 2}, SomeHead()),
            wire::WARNING_KIND_UNSPECIFIED);
  HeadStatistics without_choice = SomeHead();
  without_choice.mean_visible_keys = 1;
  EXPECT_EQ(AlikeOf({1, 1}, {1, 2, 1, 1}, without_choice),
            wire::WARNING_KIND_UNSPECIFIED);
  EXPECT_EQ(AlikeOf({}, {1, 2, 0, 5}, SomeHead()),
            wire::WARNING_KIND_UNSPECIFIED);
}

TEST(CallWarningsTest, HeadsAreComparedWithinTheirBatchEntry) {
  EXPECT_EQ(AlikeOf({0.2F, 0.8F, 0.2F, 0.8F, 0.6F, 0.4F, 0.6F, 0.4F},
                    {2, 2, 1, 2}, SomeHead()),
            wire::WARNING_KIND_HEADS_ALIKE);
  EXPECT_EQ(AlikeOf({0.2F, 0.8F, 0.2F, 0.8F, 0.6F, 0.4F, 0.4F, 0.6F},
                    {2, 2, 1, 2}, SomeHead()),
            wire::WARNING_KIND_UNSPECIFIED);
}

}  // namespace
}  // namespace attn
