#include "client/capacity/replica_sweep.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/capacity/plain_machine.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

ReplicaSetting WideReplica(int cores, double utilisation) {
  ReplicaSetting replica;
  replica.cores = cores;
  replica.memory_bytes = 1e14;
  replica.network_bits_per_second = 1e15;
  replica.p99_seconds = 10;
  replica.most_utilisation = utilisation;
  return replica;
}

SweepSetting WideProxy() {
  SweepSetting setting;
  setting.proxy_cores = 4000;
  setting.proxy_bits_per_second = 1e15;
  setting.fewest_calls = 5'000;
  return setting;
}

// Of M/D/1: P(W <= t), by Erlang (1909) and Crommelin (1932).
double WaitsAtMost(double t, double rate, double service) {
  double sum = 0;
  double factorial = 1;
  const auto whole = static_cast<int>(t / service);
  for (int k = 0; k <= whole; ++k) {
    if (k > 0) factorial *= k;
    const double x = rate * (k * service - t);
    sum += std::pow(x, k) / factorial * std::exp(-x);
  }
  return (1 - rate * service) * sum;
}

TEST(ReplicaSweepTest, OneCoreIsAQueueOfConstantService) {
  SessionWorkload workload = PlainWorkload();
  workload.rate = 1;
  SweepSetting setting = WideProxy();
  setting.fewest_calls = 60'000;
  const ReplicaSweep sweep(PlainMachine(), workload, WideReplica(1, 0.7),
                           setting);
  const auto row = sweep.Row(1);
  ASSERT_TRUE(row.ok()) << row.status();
  const double rate = row->direct.calls_per_second;
  EXPECT_NEAR(rate * kPlainStep, 0.7, 0.001);
  // The distribution's own quantiles, from what was simulated.
  EXPECT_NEAR(
      WaitsAtMost(row->direct.p50_seconds - kPlainStep, rate, kPlainStep), 0.5,
      0.03);
  EXPECT_NEAR(
      WaitsAtMost(row->direct.p99_seconds - kPlainStep, rate, kPlainStep), 0.99,
      0.004);
}

TEST(ReplicaSweepTest, EvenReplicasHoldAsManyAsOneTimesTheirNumber) {
  SweepSetting setting = WideProxy();
  setting.placement = PlacementRule::kEven;
  const ReplicaSweep sweep(PlainMachine(), PlainWorkload(), WideReplica(4, 0.6),
                           setting);
  const ReplicaModel model(PlainMachine(), PlainWorkload(),
                           WideReplica(4, 0.6));
  for (const int64_t replicas : {1, 3, 10}) {
    const auto row = sweep.Row(replicas);
    ASSERT_TRUE(row.ok());
    EXPECT_EQ(row->direct.sessions, replicas * model.MostSessions().sessions);
    EXPECT_EQ(row->fullest_to_mean, 1);
    EXPECT_EQ(row->direct.binds, CapacityLimit::kCores);
    EXPECT_GE(row->direct.p50_seconds, kPlainStep);
    EXPECT_GE(row->direct.p99_seconds, row->direct.p50_seconds);
    // The way through a proxy that is wide is longer by what it takes.
    EXPECT_EQ(row->proxied.sessions, row->direct.sessions);
    EXPECT_EQ(row->proxied.binds, CapacityLimit::kCores);
    EXPECT_GT(row->proxied.p50_seconds, row->direct.p50_seconds + 4e-5);
  }
}

TEST(ReplicaSweepTest, RandomPlacementCostsWhatTheFullestHasMore) {
  const auto sessions = [](PlacementRule rule) {
    SweepSetting setting = WideProxy();
    setting.placement = rule;
    const auto row = ReplicaSweep(PlainMachine(), PlainWorkload(),
                                  WideReplica(1, 0.5), setting)
                         .Row(50);
    EXPECT_TRUE(row.ok());
    return row->direct.sessions;
  };
  EXPECT_LT(sessions(PlacementRule::kRandom),
            sessions(PlacementRule::kTwoChoices));
  EXPECT_LT(sessions(PlacementRule::kTwoChoices),
            sessions(PlacementRule::kEven));
}

// A call takes its core 50 us and a nanosecond for each byte on the wire.
TEST(ReplicaSweepTest, TheProxyPassesOnWhatItsCoresCan) {
  SweepSetting setting = WideProxy();
  setting.proxy_cores = 2;
  const ReplicaSweep sweep(PlainMachine(), PlainWorkload(), WideReplica(4, 0.5),
                           setting);
  const double bytes = (1400 + 500) * 1538 / 1448.0;
  const auto most = sweep.ProxyMost();
  EXPECT_EQ(most.binds, CapacityLimit::kProxyCores);
  EXPECT_EQ(most.sessions,
            static_cast<int64_t>(0.5 * 2 / (5e-5 + 1e-9 * bytes) / 10));
  const auto few = sweep.Row(1);
  ASSERT_TRUE(few.ok());
  EXPECT_EQ(few->proxied.sessions, few->direct.sessions);
  const auto many = sweep.Row(100);
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(many->proxied.sessions, most.sessions);
  EXPECT_EQ(many->proxied.binds, CapacityLimit::kProxyCores);
  EXPECT_GT(many->direct.sessions, most.sessions);
  EXPECT_EQ(many->direct.binds, CapacityLimit::kCores);
}

// What comes in goes out again: each way carries requests and answers.
TEST(ReplicaSweepTest, TheProxyPassesOnWhatItsNetworkCan) {
  SweepSetting setting = WideProxy();
  setting.proxy_bits_per_second = 1e7;
  const ReplicaSweep sweep(PlainMachine(), PlainWorkload(), WideReplica(4, 0.5),
                           setting);
  const auto most = sweep.ProxyMost();
  EXPECT_EQ(most.binds, CapacityLimit::kProxyNetwork);
  EXPECT_EQ(most.sessions,
            static_cast<int64_t>(0.5 * 1e7 / 8 / (1900 * 1538 / 1448.0) / 10));
}

TEST(ReplicaSweepTest, TheSameSeedGivesTheSameRow) {
  const auto row = [](uint64_t seed) {
    SweepSetting setting = WideProxy();
    setting.seed = seed;
    return *ReplicaSweep(PlainMachine(), PlainWorkload(), WideReplica(2, 0.7),
                         setting)
                .Row(20);
  };
  const SweepRow first = row(1);
  const SweepRow again = row(1);
  EXPECT_EQ(first.direct.p99_seconds, again.direct.p99_seconds);
  EXPECT_EQ(first.proxied.p50_seconds, again.proxied.p50_seconds);
  EXPECT_NE(first.direct.p99_seconds, row(2).direct.p99_seconds);
}

TEST(ReplicaSweepTest, WhatHoldsNothingIsSaid) {
  SweepSetting setting = WideProxy();
  setting.proxy_bits_per_second = 1e6;
  SessionWorkload workload = PlainWorkload();
  workload.rate = 1000;
  const auto row =
      ReplicaSweep(PlainMachine(), workload, WideReplica(4, 0.5), setting)
          .Row(1);
  EXPECT_EQ(row.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(row.status().message()), HasSubstr("proxy network"));
}

TEST(ReplicaSweepTest, WhatIsOutOfRangeIsNamed) {
  SweepSetting setting;
  EXPECT_TRUE(CheckSweep(setting, "--").ok());
  setting.proxy_cores = 0;
  EXPECT_THAT(std::string(CheckSweep(setting, "--").message()),
              HasSubstr("--proxy-cores: got 0"));
  setting = {};
  setting.proxy_bits_per_second = 0;
  EXPECT_THAT(std::string(CheckSweep(setting, "--").message()),
              HasSubstr("--proxy-gbps: got 0"));
}

}  // namespace
}  // namespace attn
