// Calls that end before their work does: for want of memory, or because a job
// saw that it is of no use any more.
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "engine/call_task.h"
#include "engine/engine.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr size_t kTooMany = std::numeric_limits<size_t>::max();

// Jobs of one phase, and what each does.
struct Script {
  int64_t jobs = 1;
  size_t worker_scratch = 0;
  size_t call_scratch = 0;
  std::function<void(const KernelCall&)> run = [](const KernelCall&) {};
};

class ScriptedExecution final : public Execution {
 public:
  explicit ScriptedExecution(Script script) : script_(std::move(script)) {}

  int phase_count() const override { return 1; }
  int64_t job_count(int) const override { return script_.jobs; }
  size_t worker_scratch_bytes() const override {
    return script_.worker_scratch;
  }
  size_t call_scratch_bytes() const override { return script_.call_scratch; }
  void RunJob(const KernelCall& call, int, int64_t, Arena&) const override {
    script_.run(call);
  }

 private:
  const Script script_;
};

std::shared_ptr<const Plan> ScriptedPlan(Script script) {
  auto plan = std::make_shared<Plan>();
  plan->problem.shape = {.batch = 1,
                         .q_heads = 1,
                         .kv_heads = 1,
                         .q_length = 1,
                         .kv_length = 1,
                         .q_dim = 1,
                         .k_dim = 1,
                         .v_dim = 1};
  plan->execution = std::make_unique<ScriptedExecution>(std::move(script));
  return plan;
}

// The ways into the engine.
enum class Way { kHere, kAlone, kTogether };

class UnfinishedCallsTest : public ::testing::TestWithParam<Way> {
 protected:
  absl::Status Run(Script script) {
    const auto plan = ScriptedPlan(std::move(script));
    const auto ended = std::make_shared<std::promise<absl::Status>>();
    const auto done = [ended](const CallReport& report) {
      ended->set_value(report.status);
    };
    if (GetParam() == Way::kAlone) {
      engine_.Submit(plan, args_, outputs_, cancellation_, done);
      return ended->get_future().get();
    }
    ForwardCall call{.plan = plan,
                     .args = &args_,
                     .outputs = &outputs_,
                     .cancellation = &cancellation_,
                     .done = done};
    if (GetParam() == Way::kHere) {
      engine_.RunHere(std::move(call));
    } else {
      std::vector<ForwardCall> calls;
      calls.push_back(std::move(call));
      engine_.SubmitTogether(std::move(calls));
    }
    return ended->get_future().get();
  }
  void ExpectOutOfMemory(Script script) {
    EXPECT_TRUE(absl::IsResourceExhausted(Run(std::move(script))));
    // The worker is there for the next call.
    EXPECT_TRUE(Run({}).ok());
  }

  const AttentionArgs args_;
  const AttentionOutputs outputs_;
  Cancellation cancellation_{Clock::Monotonic(), absl::InfiniteFuture()};
  Engine engine_{{.workers = 1}};
};

INSTANTIATE_TEST_SUITE_P(Ways, UnfinishedCallsTest,
                         ::testing::Values(Way::kHere, Way::kAlone,
                                           Way::kTogether));

TEST_P(UnfinishedCallsTest, AScratchThatTheSystemDoesNotHaveFailsTheCall) {
  Script script;
  script.call_scratch = kTooMany;
  ExpectOutOfMemory(std::move(script));
}

TEST_P(UnfinishedCallsTest, SoDoesAScratchOfItsJobs) {
  Script script;
  script.worker_scratch = kTooMany;
  ExpectOutOfMemory(std::move(script));
}

TEST_P(UnfinishedCallsTest, SoDoesAJobThatGetsNoMemory) {
  Script script;
  script.jobs = 3;
  script.run = [](const KernelCall&) { throw std::bad_alloc(); };
  ExpectOutOfMemory(std::move(script));
}

TEST_P(UnfinishedCallsTest, ALastJobThatStopsHalfWayFailsItsCall) {
  Script script;
  script.run = [this](const KernelCall& call) {
    EXPECT_FALSE(Stops(call));
    cancellation_.Cancel();
    EXPECT_TRUE(Stops(call));
  };
  EXPECT_TRUE(absl::IsCancelled(Run(std::move(script))));
}

TEST_P(UnfinishedCallsTest, ACallOfManyJobsEndsAmongThem) {
  int64_t runs = 0;
  Script script;
  script.jobs = 10'000;
  script.run = [&](const KernelCall&) {
    ++runs;
    cancellation_.Cancel();
  };
  EXPECT_TRUE(absl::IsCancelled(Run(std::move(script))));
  EXPECT_LE(runs, 100);
}

// Calls of one hand-over share no memory, so none of them is the others' want.
TEST(CallsTogether, OneOfTooMuchScratchLeavesTheOthersAlone) {
  const AttentionArgs args;
  const AttentionOutputs outputs;
  const Cancellation cancellation(Clock::Monotonic(), absl::InfiniteFuture());
  for (size_t hungry = 0; hungry < 3; ++hungry) {
    std::vector<std::promise<absl::Status>> ended(3);
    Engine engine({.workers = 1});
    std::vector<ForwardCall> calls;
    for (size_t i = 0; i < ended.size(); ++i) {
      Script script;
      script.worker_scratch = i == hungry ? kTooMany : 1024;
      calls.push_back({.plan = ScriptedPlan(std::move(script)),
                       .args = &args,
                       .outputs = &outputs,
                       .cancellation = &cancellation,
                       .done = [&end = ended[i]](const CallReport& report) {
                         end.set_value(report.status);
                       }});
    }
    engine.SubmitTogether(std::move(calls));
    for (size_t i = 0; i < ended.size(); ++i) {
      const absl::Status status = ended[i].get_future().get();
      EXPECT_EQ(absl::IsResourceExhausted(status), i == hungry) << status;
      EXPECT_EQ(status.ok(), i != hungry) << status;
    }
  }
}

Problem ProblemOf(const AttentionShape& shape) {
  Problem problem;
  problem.shape = shape;
  return problem;
}

TEST(IsShortCall, KeysWithoutWidthAreWorkToo) {
  const auto plan = MakePlan(ProblemOf({.batch = 1,
                                        .q_heads = 1,
                                        .kv_heads = 1,
                                        .q_length = 65,
                                        .kv_length = 900'000'000,
                                        .q_dim = 0,
                                        .k_dim = 0,
                                        .v_dim = 0}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  // What is told is the formula.
  EXPECT_EQ((*plan)->flops, 0);
  EXPECT_FALSE(IsShortCall(**plan));
  EXPECT_FALSE(IsSmallCall(**plan));
}

TEST(IsShortCall, HeadsWithoutRowsAreWorkToo) {
  const auto plan = MakePlan(ProblemOf({.batch = int64_t{1} << 40,
                                        .q_heads = 1,
                                        .kv_heads = 1,
                                        .q_length = 0,
                                        .kv_length = 0,
                                        .q_dim = 8,
                                        .k_dim = 8,
                                        .v_dim = 8}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(IsShortCall(**plan));
  EXPECT_FALSE(IsSmallCall(**plan));
}

}  // namespace
}  // namespace attn
