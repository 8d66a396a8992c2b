#include "engine/engine.h"

#include <future>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/engine_call.h"
#include "tests/testing/random_case.h"

namespace attn {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

oracle::Case SmallCase() {
  oracle::Random random(51);
  oracle::Case call;
  call.batch = 2;
  call.q_heads = 2;
  call.kv_heads = 2;
  call.q_length = 9;
  call.kv_length = 12;
  call.qk_dim = 8;
  call.v_dim = 8;
  FillTensors(random, call);
  return call;
}

class EngineTest : public ::testing::Test {
 protected:
  // Submits a call whose only output is the engine's report.
  CallReport SubmitAndWait(const oracle::Case& call,
                           const Cancellation& cancellation) {
    const testing::EngineCall engine_call(call, {});
    auto plan =
        engine_.Plan(engine_call.spec(), engine_call.args(), {}, DType::kF32);
    EXPECT_TRUE(plan.ok()) << plan.status();
    std::promise<CallReport> report;
    engine_.Submit(*plan, engine_call.args(), {}, cancellation,
                   [&](CallReport r) { report.set_value(std::move(r)); });
    return report.get_future().get();
  }

  Engine engine_{{.workers = 2}};
};

TEST_F(EngineTest, ReportCountsRowsWithoutKeysWithinTheLengthsOnly) {
  oracle::Case call = SmallCase();
  call.q_lengths = {9, 4};
  oracle::Tensor mask{{9, 1}, {1, 1, 0, 1, 1, 1, 1, 0, 0}};
  call.dense_masks = {mask};
  const Cancellation never(Clock::Monotonic(), absl::InfiniteFuture());
  const CallReport report = SubmitAndWait(call, never);
  EXPECT_TRUE(report.status.ok());
  // Three rows of both heads of the first entry, one of the second.
  EXPECT_EQ(report.fully_masked_rows, 2 * 3 + 2 * 1);
  EXPECT_EQ(report.row_statistics.size(), 2U * 2 * 9);
  EXPECT_GE(report.queued, absl::ZeroDuration());
  EXPECT_GT(report.computed, absl::ZeroDuration());
}

TEST_F(EngineTest, CancelledCallEndsWithoutStatistics) {
  Cancellation cancelled(Clock::Monotonic(), absl::InfiniteFuture());
  cancelled.Cancel();
  const CallReport report = SubmitAndWait(SmallCase(), cancelled);
  EXPECT_EQ(report.status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(report.row_statistics, IsEmpty());
}

TEST_F(EngineTest, LateCallEndsWithDeadlineExceeded) {
  const Cancellation late(Clock::Monotonic(),
                          Clock::Monotonic().Now() - absl::Seconds(1));
  EXPECT_EQ(SubmitAndWait(SmallCase(), late).status.code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(EngineTest, PlanNeedsNoData) {
  const testing::EngineCall call(SmallCase(), {});
  AttentionArgs args = call.args();
  args.q.data = nullptr;
  args.k.data = nullptr;
  args.v.data = nullptr;
  EXPECT_TRUE(engine_.Plan(call.spec(), args, {}, DType::kF32).ok());
}

TEST_F(EngineTest, EqualCallsShareAPlan) {
  const testing::EngineCall call(SmallCase(), {});
  const auto a = engine_.Plan(call.spec(), call.args(), {}, DType::kF32);
  const auto b = engine_.Plan(call.spec(), call.args(), {}, DType::kF32);
  EXPECT_EQ(*a, *b);
}

TEST_F(EngineTest, PlanNamesTheFieldThatIsWrong) {
  oracle::Case call = SmallCase();
  call.temperatures = {-1};
  const testing::EngineCall engine_call(call, {});
  const auto plan =
      engine_.Plan(engine_call.spec(), engine_call.args(), {}, DType::kF32);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(plan.status()), "spec.temperatures[0]");
}

TEST_F(EngineTest, WorkersAreThoseAskedFor) {
  EXPECT_EQ(engine_.workers(), 2);
  EXPECT_GE(Engine().workers(), 1);
}

TEST(EngineDoorTest, ListsEveryStageAndKernel) {
  std::vector<std::string> stages;
  for (const StageInfo& stage : ListStages()) {
    stages.push_back(stage.stage);
    EXPECT_THAT(stage.members, Not(IsEmpty())) << stage.stage;
    for (const MemberInfo& member : stage.members) {
      EXPECT_FALSE(member.name.empty());
      EXPECT_FALSE(member.summary.empty());
    }
  }
  EXPECT_THAT(stages, ElementsAre("transform", "score", "bias", "mask",
                                  "sparsifier", "normalizer"));
  EXPECT_EQ(ListKernels().back(), "reference");
  EXPECT_THAT(ListKernels(), Contains("rowwise"));
  EXPECT_FALSE(IsaName().empty());
  EXPECT_FALSE(OneDnnVersion().empty());
}

}  // namespace
}  // namespace attn
