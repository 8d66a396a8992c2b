#include "client/capacity/replica_model.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/capacity/plain_machine.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

ReplicaSetting PlainReplica() {
  ReplicaSetting replica;
  replica.cores = 4;
  replica.memory_bytes = 1e12;
  replica.network_bits_per_second = 1e12;
  replica.p99_seconds = 10;
  replica.most_utilisation = 0.5;
  replica.call_bytes = 0;
  return replica;
}

ReplicaFigure FigureOf(const ReplicaModel& model, CapacityLimit limit,
                       double sessions) {
  return model.Figures(sessions)[static_cast<size_t>(limit)];
}

TEST(ReplicaModelTest, FiguresAreNeedsOfAllSessions) {
  const ReplicaModel model(PlainMachine(), PlainWorkload(), PlainReplica());
  const auto need = [&](CapacityLimit limit) {
    return FigureOf(model, limit, 100).need;
  };
  // 1000 steps a second.
  EXPECT_NEAR(need(CapacityLimit::kCores), 1000 * kPlainStep, 1e-9);
  EXPECT_NEAR(need(CapacityLimit::kMemoryBus), 8e8, 1e-3);
  // 16 blocks of 64 tokens, and what is kept of a session: 15 % more.
  const double session = 16 * 64 * 200 * 4 + 200 + 1024 + 400;
  EXPECT_NEAR(need(CapacityLimit::kMemory), 1e7 + 1.15 * 100 * session, 1e-3);
  EXPECT_NEAR(need(CapacityLimit::kNetworkIn), 1e6 * 1.4 * 8 * 1538 / 1448,
              1e-3);
  EXPECT_EQ(need(CapacityLimit::kSessionCount), 100);
  // Hardly any waits.
  EXPECT_NEAR(need(CapacityLimit::kStepLatency), kPlainStep, 1e-6);
  EXPECT_NEAR(need(CapacityLimit::kTokenTime), kPlainStep + 2e-4, 1e-6);
}

TEST(ReplicaModelTest, FiguresStandInTheOrderOfLimits) {
  const ReplicaModel model(PlainMachine(), PlainWorkload(), PlainReplica());
  const auto figures = model.Figures(1);
  ASSERT_EQ(figures.size(),
            static_cast<size_t>(CapacityLimit::kSessionCount) + 1);
  for (size_t i = 0; i < figures.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(figures[i].limit), i);
    EXPECT_NE(std::string(NameOf(figures[i].limit)), "");
  }
}

// Each in turn made scarce.
TEST(ReplicaModelTest, WhatIsScarceBinds) {
  const auto most = [](auto change) {
    SessionWorkload workload = PlainWorkload();
    ReplicaSetting replica = PlainReplica();
    change(workload, replica);
    return ReplicaModel(PlainMachine(), workload, replica).MostSessions();
  };
  auto found = most([](auto&, auto&) {});
  EXPECT_EQ(found.binds, CapacityLimit::kCores);
  EXPECT_EQ(found.sessions, static_cast<int64_t>(0.5 * 4 / (10 * kPlainStep)));
  found = most([](auto&, auto& r) { r.memory_bytes = 2e7; });
  EXPECT_EQ(found.binds, CapacityLimit::kMemory);
  EXPECT_EQ(found.sessions, static_cast<int64_t>(1e7 / 1.15 / (819200 + 1624)));
  found = most([](auto&, auto& r) { r.network_bits_per_second = 1e7; });
  EXPECT_EQ(found.binds, CapacityLimit::kNetworkIn);
  found = most([](auto&, auto& r) { r.bus_bytes_per_second = 1e9; });
  EXPECT_EQ(found.binds, CapacityLimit::kMemoryBus);
  found = most([](auto&, auto& r) { r.p99_seconds = kPlainStep * 1.0001; });
  EXPECT_EQ(found.binds, CapacityLimit::kStepLatency);
  EXPECT_GT(found.sessions, 0);
  found = most([](auto& w, auto& r) {
    w.rate = 2.0;
    r.round_trip_seconds = 0.5 - kPlainStep - 1e-6;
  });
  EXPECT_EQ(found.binds, CapacityLimit::kTokenTime);
  found = most([](auto&, auto& r) { r.most_sessions = 3; });
  EXPECT_EQ(found.binds, CapacityLimit::kSessionCount);
  EXPECT_EQ(found.sessions, 3);
}

TEST(ReplicaModelTest, TheMostFitsAndOneMoreDoesNot) {
  for (const double memory : {3e7, 1e8, 1e9, 1e12}) {
    for (const double goal : {2e-4, 1e-3, 1.0}) {
      ReplicaSetting replica = PlainReplica();
      replica.memory_bytes = memory;
      replica.p99_seconds = goal;
      const ReplicaModel model(PlainMachine(), PlainWorkload(), replica);
      const auto most = model.MostSessions();
      ASSERT_GT(most.sessions, 0);
      bool fits = true;
      bool one_more = true;
      for (const auto& figure :
           model.Figures(static_cast<double>(most.sessions))) {
        fits = fits && figure.fits();
      }
      for (const auto& figure :
           model.Figures(static_cast<double>(most.sessions + 1))) {
        one_more = one_more && figure.fits();
      }
      EXPECT_TRUE(fits);
      EXPECT_FALSE(one_more);
    }
  }
}

TEST(ReplicaModelTest, MoreOfWhatThereIsHoldsNoFewer) {
  const auto most = [](auto change) {
    ReplicaSetting replica = PlainReplica();
    replica.memory_bytes = 1e9;
    replica.p99_seconds = 5e-4;
    replica.network_bits_per_second = 1e8;
    change(replica);
    return ReplicaModel(PlainMachine(), PlainWorkload(), replica)
        .MostSessions()
        .sessions;
  };
  const int64_t base = most([](auto&) {});
  EXPECT_GE(most([](auto& r) { r.memory_bytes *= 2; }), base);
  EXPECT_GE(most([](auto& r) { r.p99_seconds *= 2; }), base);
  EXPECT_GE(most([](auto& r) { r.network_bits_per_second *= 2; }), base);
  EXPECT_GE(most([](auto& r) { r.cores *= 2; }), base);
  EXPECT_GE(most([](auto& r) { r.most_utilisation = 0.9; }), base);
  EXPECT_LE(most([](auto& r) { r.call_bytes = 5e8; }), base);
}

TEST(ReplicaModelTest, AQueueWithoutEndFitsNowhere) {
  const ReplicaModel model(PlainMachine(), PlainWorkload(), PlainReplica());
  const ReplicaFigure figure =
      FigureOf(model, CapacityLimit::kStepLatency, 1e6);
  EXPECT_TRUE(std::isinf(figure.need));
  EXPECT_FALSE(figure.fits());
}

TEST(ReplicaModelTest, WhatIsOutOfRangeIsNamed) {
  const auto says = [](auto change) {
    ReplicaSetting replica;
    change(replica);
    return std::string(CheckReplica(replica, "--").message());
  };
  EXPECT_EQ(says([](auto&) {}), "");
  EXPECT_THAT(says([](auto& r) { r.cores = 0; }),
              HasSubstr("--cores-per-replica: got 0"));
  EXPECT_THAT(says([](auto& r) { r.memory_bytes = -1; }),
              HasSubstr("--memory-per-replica"));
  EXPECT_THAT(says([](auto& r) { r.network_bits_per_second = NAN; }),
              HasSubstr("--network-gbps"));
  EXPECT_THAT(says([](auto& r) { r.p99_seconds = 0; }), HasSubstr("--p99"));
  EXPECT_THAT(says([](auto& r) { r.most_utilisation = 1; }),
              HasSubstr("--max-utilisation"));
}

}  // namespace
}  // namespace attn
