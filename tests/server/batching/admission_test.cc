#include "server/batching/admission.h"

#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/batching/refusal.h"
#include "tests/server/batching/fake_clock.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest()
      : gate_({.max_concurrent_requests = 2, .max_inflight_bytes = 100},
              clock_) {}

  absl::StatusOr<Admission::Permit> Admit(int64_t bytes) {
    return gate_.Admit(bytes, absl::InfiniteFuture());
  }

  FakeClock clock_;
  Admission gate_;
};

TEST_F(AdmissionTest, NobodyIsLetInBeforeItOpens) {
  EXPECT_EQ(RefusalOf(Admit(1).status()), Refusal::kDraining);
  gate_.Open();
  EXPECT_TRUE(Admit(1).ok());
}

TEST_F(AdmissionTest, APlaceIsFreedWhenItsPermitIsGone) {
  gate_.Open();
  {
    auto first = Admit(10);
    auto second = Admit(10);
    ASSERT_TRUE(first.ok());
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(RefusalOf(Admit(10).status()), Refusal::kQueueFull);
    EXPECT_EQ(gate_.requests(), 2);
    EXPECT_EQ(gate_.bytes(), 20);
  }
  EXPECT_EQ(gate_.requests(), 0);
  EXPECT_EQ(gate_.bytes(), 0);
  EXPECT_TRUE(Admit(10).ok());
}

TEST_F(AdmissionTest, AMovedPermitCountsOnce) {
  gate_.Open();
  Admission::Permit kept;
  {
    auto permit = Admit(10);
    ASSERT_TRUE(permit.ok());
    kept = *std::move(permit);
  }
  EXPECT_EQ(gate_.requests(), 1);
  kept = Admission::Permit();
  EXPECT_EQ(gate_.requests(), 0);
}

TEST_F(AdmissionTest, BytesBeyondTheBudgetAreRefusedWithTheNumbers) {
  gate_.Open();
  auto first = Admit(60);
  ASSERT_TRUE(first.ok());
  const absl::Status status = Admit(50).status();
  EXPECT_EQ(RefusalOf(status), Refusal::kMemory);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("50"), HasSubstr("60"),
                    HasSubstr("--max-inflight-bytes=100")));
  EXPECT_EQ(gate_.requests(), 1);
}

TEST_F(AdmissionTest, WhatCouldNeverFitIsTooLarge) {
  gate_.Open();
  EXPECT_EQ(RefusalOf(Admit(101).status()), Refusal::kTooLarge);
  EXPECT_EQ(gate_.bytes(), 0);
}

TEST_F(AdmissionTest, ARefusedGrowthBooksNothing) {
  gate_.Open();
  auto permit = Admit(60);
  ASSERT_TRUE(permit.ok());
  EXPECT_EQ(RefusalOf(permit->Grow(41)), Refusal::kMemory);
  EXPECT_EQ(gate_.bytes(), 60);
  EXPECT_TRUE(permit->Grow(40).ok());
  EXPECT_EQ(gate_.bytes(), 100);
}

TEST_F(AdmissionTest, ALateRequestIsRefused) {
  gate_.Open();
  clock_.AdvanceMilliseconds(10);
  EXPECT_EQ(RefusalOf(gate_.Admit(1, clock_.Now()).status()),
            Refusal::kDeadlineExpired);
}

TEST_F(AdmissionTest, AClosedGateWaitsForThoseInside) {
  gate_.Open();
  auto inside = Admit(1);
  ASSERT_TRUE(inside.ok());
  gate_.Close();
  EXPECT_EQ(RefusalOf(Admit(1).status()), Refusal::kDraining);
  EXPECT_FALSE(gate_.WaitUntilEmpty(absl::ZeroDuration()));
  std::thread leaves([permit = *std::move(inside)]() mutable {
    permit = Admission::Permit();
  });
  EXPECT_TRUE(gate_.WaitUntilEmpty(absl::InfiniteDuration()));
  leaves.join();
}

}  // namespace
}  // namespace attn
