#include "client/capacity/capacity_plan.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/capacity/plain_machine.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

// Of which each holds three sessions.
ReplicaModel ThreeEach(const SessionWorkload& workload = PlainWorkload()) {
  ReplicaSetting replica;
  replica.most_sessions = 3;
  return {PlainMachine(), workload, replica};
}

TEST(CapacityPlanTest, TheFewestReplicasThatHoldThem) {
  const struct {
    int64_t sessions, replicas, each;
  } cases[] = {{1, 1, 1}, {3, 1, 3}, {4, 2, 2}, {6, 2, 3}, {7, 3, 3}};
  for (const auto& wanted : cases) {
    const auto plan = PlanReplicas(ThreeEach(), wanted.sessions);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->replicas, wanted.replicas);
    EXPECT_EQ(plan->sessions_per_replica, wanted.each);
    EXPECT_EQ(plan->most.sessions, 3);
    EXPECT_EQ(plan->most.binds, CapacityLimit::kSessionCount);
    EXPECT_TRUE(plan->fits());
    EXPECT_EQ(plan->session_bytes_per_replica,
              wanted.each * (819200 + 200 + 1024 + 400));
  }
}

TEST(CapacityPlanTest, ReplicasHoldWhatTheyHold) {
  const auto plan = PlanSessions(ThreeEach(), 0, 5);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->sessions, 15);
  EXPECT_TRUE(plan->fits());
  const auto more = PlanSessions(ThreeEach(), 16, 5);
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(more->sessions_per_replica, 4);
  EXPECT_FALSE(more->fits());
}

TEST(CapacityPlanTest, WhatOneSessionAloneIsBeyondIsSaid) {
  SessionWorkload workload = PlainWorkload();
  workload.rate = 1e5;
  for (const auto& plan : {PlanReplicas(ThreeEach(workload), 1),
                           PlanSessions(ThreeEach(workload), 0, 1)}) {
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(plan.status().message()),
                HasSubstr("no replica holds even one session: cores"));
  }
}

TEST(CapacityPlanTest, CountsOutOfRangeAreNamed) {
  EXPECT_THAT(std::string(PlanReplicas(ThreeEach(), 0).status().message()),
              HasSubstr("sessions: got 0"));
  EXPECT_THAT(
      std::string(PlanReplicas(ThreeEach(), INT64_MAX).status().message()),
      HasSubstr("sessions"));
  EXPECT_THAT(std::string(PlanSessions(ThreeEach(), 0, -1).status().message()),
              HasSubstr("replicas: got -1"));
}

TEST(CapacityPlanTest, MoreSessionsNeedNoFewerReplicas) {
  int64_t before = 0;
  for (int64_t sessions = 1; sessions < 1000; sessions += 13) {
    const auto plan = PlanReplicas(ThreeEach(), sessions);
    ASSERT_TRUE(plan.ok());
    EXPECT_GE(plan->replicas, before);
    EXPECT_GE(plan->replicas * 3, sessions);
    EXPECT_LT((plan->replicas - 1) * 3, sessions);
    before = plan->replicas;
  }
}

}  // namespace
}  // namespace attn
