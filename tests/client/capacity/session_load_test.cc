#include "client/capacity/session_load.h"

#include "gtest/gtest.h"
#include "tests/client/capacity/plain_machine.h"

namespace attn {
namespace {

constexpr ComputeSite kPlainSite{4, 1e12};

TEST(SessionLoadTest, AStepIsTheSumOfItsParts) {
  const CallDemand step =
      StepDemand(PlainMachine(), PlainWorkload(), kPlainSite);
  EXPECT_NEAR(step.cpu_seconds, kPlainStep, 1e-15);
  EXPECT_NEAR(step.service_seconds, kPlainStep, 1e-15);
  EXPECT_EQ(step.bus_bytes, 800'000);
  // 1448 of 1538 bytes of a frame are the stream's.
  EXPECT_NEAR(step.bytes_in, (1200 + 200) * 1538 / 1448.0, 1e-9);
  EXPECT_NEAR(step.bytes_out, (400 + 100) * 1538 / 1448.0, 1e-9);
}

// 800,000 bytes by 4 cores at 10 GB/s together: 320 us instead of 42.
TEST(SessionLoadTest, CoresThatReadTogetherWaitForTheBus) {
  const CallDemand step =
      StepDemand(PlainMachine(), PlainWorkload(), {4, 1e10});
  EXPECT_NEAR(step.service_seconds, kPlainStep - 4.2e-5 + 3.2e-4, 1e-15);
  EXPECT_NEAR(step.cpu_seconds, kPlainStep, 1e-15);
  EXPECT_TRUE(
      LoadOfSession(PlainMachine(), PlainWorkload(), {4, 1e10}).bus_bound);
  EXPECT_FALSE(
      LoadOfSession(PlainMachine(), PlainWorkload(), kPlainSite).bus_bound);
}

TEST(SessionLoadTest, WithoutPromptsThereAreStepsAlone) {
  const SessionLoad load =
      LoadOfSession(PlainMachine(), PlainWorkload(), kPlainSite);
  EXPECT_EQ(load.calls_per_second, 10);
  EXPECT_NEAR(load.mean.service_seconds, kPlainStep, 1e-15);
  EXPECT_NEAR(load.variation, 0, 1e-12);
  MachineProfile machine = PlainMachine();
  machine.service_variation = 0.25;
  EXPECT_NEAR(LoadOfSession(machine, PlainWorkload(), kPlainSite).variation,
              0.25, 1e-12);
}

// A session of 600 first tokens and 400 more at 10/s lives 40 s; its prompt is
// two calls.
TEST(SessionLoadTest, APromptComesOnceInALife) {
  SessionWorkload workload = PlainWorkload();
  workload.prompt = 600;
  const MachineProfile machine = PlainMachine();
  const SessionLoad load = LoadOfSession(machine, workload, kPlainSite);
  EXPECT_NEAR(load.calls_per_second, 10 + 2 / 40.0, 1e-12);
  const CallDemand first = PrefillDemand(machine, workload, kPlainSite, 0);
  const CallDemand second = PrefillDemand(machine, workload, kPlainSite, 1);
  // A call, a layer, 512 rows of q, k, v and output, of which 16 KiB cost more,
  // and 512 * 513 / 2 pairs.
  EXPECT_NEAR(
      first.cpu_seconds,
      1.1e-4 + 512 * 1600 * 1e-9 + 16384 * 2e-9 + 512 * 513 / 2 * 200 * 1e-11,
      1e-12);
  const double mean = (10 * kPlainStep +
                       (first.service_seconds + second.service_seconds) / 40) /
                      (10 + 2 / 40.0);
  EXPECT_NEAR(load.mean.service_seconds, mean, 1e-12);
  EXPECT_GT(load.variation, 0.1);
}

TEST(SessionLoadTest, MoreOfAnythingCostsNoLess) {
  const MachineProfile machine = PlainMachine();
  double before = 0;
  for (int64_t tokens = 1; tokens < 100'000; tokens *= 3) {
    SessionWorkload workload = PlainWorkload();
    workload.tokens = tokens;
    const double seconds =
        StepDemand(machine, workload, kPlainSite).service_seconds;
    EXPECT_GT(seconds, before);
    for (auto change : {&SessionWorkload::q_heads, &SessionWorkload::k_dim,
                        &SessionWorkload::layers_per_call}) {
      SessionWorkload more = workload;
      more.*change *= 2;
      EXPECT_GT(StepDemand(machine, more, kPlainSite).service_seconds, seconds);
    }
    before = seconds;
  }
}

}  // namespace
}  // namespace attn
