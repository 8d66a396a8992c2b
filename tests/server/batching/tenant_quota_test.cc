#include "server/batching/tenant_quota.h"

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/batching/admission.h"
#include "server/batching/refusal.h"
#include "tests/server/batching/fake_clock.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TenantQuotaTest : public ::testing::Test {
 protected:
  TenantQuotaTest()
      : gate_({.max_concurrent_requests = 100, .max_inflight_bytes = 1000},
              clock_) {
    gate_.Open();
  }

  absl::StatusOr<Admission::Permit> Admit(const Tenant& tenant,
                                          int64_t bytes = 1) {
    return gate_.Admit(bytes, absl::InfiniteFuture(), tenant);
  }

  const Tenant alice_ = {"alice", {.max_requests = 2}};
  const Tenant bob_ = {"bob", {.max_inflight_bytes = 50}};
  FakeClock clock_;
  Admission gate_;
};

TEST_F(TenantQuotaTest, ATenantAtItsRequestsIsToldTheQuotaAndItsName) {
  auto first = Admit(alice_);
  auto second = Admit(alice_);
  const absl::Status third = Admit(alice_).status();
  EXPECT_EQ(RefusalOf(third), Refusal::kTenantQuota);
  EXPECT_EQ(third.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryDelayFor(third).has_value());
  EXPECT_THAT(std::string(third.message()),
              AllOf(HasSubstr("\"alice\" has 2 requests"),
                    HasSubstr("max-requests=2")));
  EXPECT_TRUE(Admit(bob_).ok());
  first = Admission::Permit();
  EXPECT_TRUE(Admit(alice_).ok());
}

TEST_F(TenantQuotaTest, ATenantAtItsBytesIsToldTheFigures) {
  auto first = Admit(bob_, 30);
  const absl::Status second = Admit(bob_, 21).status();
  EXPECT_EQ(RefusalOf(second), Refusal::kTenantQuota);
  EXPECT_THAT(std::string(second.message()),
              AllOf(HasSubstr("needs 21 bytes"), HasSubstr("\"bob\" holds 30"),
                    HasSubstr("max-inflight-bytes=50")));
  EXPECT_TRUE(Admit(alice_, 900).ok());
  EXPECT_TRUE(Admit(bob_, 20).ok());
}

TEST_F(TenantQuotaTest, WhatNeverFitsTheQuotaIsNotWorthARetry) {
  const absl::Status status = Admit(bob_, 51).status();
  EXPECT_EQ(RefusalOf(status), Refusal::kTooLarge);
  EXPECT_FALSE(RetryDelayFor(status).has_value());
  EXPECT_EQ(gate_.HeldBy("bob").requests, 0);
}

TEST_F(TenantQuotaTest, GrowthCountsAndARefusedOneBooksNothing) {
  auto permit = Admit(bob_, 10);
  EXPECT_TRUE(permit->Grow(30).ok());
  EXPECT_EQ(RefusalOf(permit->Grow(11)), Refusal::kTenantQuota);
  EXPECT_EQ(gate_.HeldBy("bob").bytes, 40);
  EXPECT_EQ(gate_.bytes(), 40);
  permit = Admission::Permit();
  EXPECT_EQ(gate_.HeldBy("bob").bytes, 0);
}

// The tenant's booking must be taken back when the server's own is refused.
TEST_F(TenantQuotaTest, WhatTheServerRefusesIsNotHeldByTheTenant) {
  auto all = Admit({}, 990);
  EXPECT_EQ(RefusalOf(Admit(bob_, 20).status()), Refusal::kMemory);
  EXPECT_EQ(gate_.HeldBy("bob").requests, 0);
  auto permit = Admit(bob_, 5);
  EXPECT_EQ(RefusalOf(permit->Grow(10)), Refusal::kMemory);
  EXPECT_EQ(gate_.HeldBy("bob").bytes, 5);
}

TEST_F(TenantQuotaTest, AnAnonymousTenantMayHaveAQuotaToo) {
  const Tenant anonymous = {"", {.max_requests = 1}};
  auto first = Admit(anonymous);
  EXPECT_THAT(std::string(Admit(anonymous).status().message()),
              HasSubstr("the anonymous tenant has 1 requests"));
}

TEST_F(TenantQuotaTest, ALoweredQuotaHoldsForThoseInside) {
  auto first = Admit(alice_);
  auto second = Admit(alice_);
  const Tenant lowered = {"alice", {.max_requests = 1}};
  first = Admission::Permit();
  EXPECT_EQ(RefusalOf(Admit(lowered).status()), Refusal::kTenantQuota);
  second = Admission::Permit();
  EXPECT_TRUE(Admit(lowered).ok());
}

TEST(TenantLedger, HoldsNoAccountOfATenantWithNothingInside) {
  TenantLedger ledger;
  for (int i = 0; i < 1000; ++i) {
    const Tenant tenant = {absl::StrCat("t", i), {.max_requests = 1}};
    auto account = ledger.Enter(tenant, 10);
    ASSERT_TRUE(account.ok());
    EXPECT_FALSE(ledger.Enter(tenant, 10).ok());
    EXPECT_EQ(ledger.accounts(), 1U);
    ledger.Leave(**account, 10);
  }
  const Tenant small = {"s", {.max_inflight_bytes = 5}};
  EXPECT_FALSE(ledger.Enter(small, 6).ok());
  EXPECT_EQ(ledger.accounts(), 0U);
}

// Many tenants on many threads: nobody ever holds more than its quota, what
// the gate holds is the sum, and at the end everything has come back.
class TenantCrowd {
 public:
  static constexpr int kTenants = 8;
  static constexpr int kThreads = 8;
  static constexpr int kRounds = 3000;

  TenantCrowd()
      : gate_({.max_concurrent_requests = 20, .max_inflight_bytes = 900},
              clock_) {
    gate_.Open();
  }

  void Run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([this, i] { RunOne(static_cast<uint32_t>(i)); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void RunOne(uint32_t seed) {
    std::minstd_rand random(seed + 1);
    std::vector<Admission::Permit> held;
    for (int round = 0; round < kRounds; ++round) {
      Step(random, held);
      if (held.size() > 4) held.erase(held.begin());
    }
  }

  void Step(std::minstd_rand& random, std::vector<Admission::Permit>& held) {
    const auto number = static_cast<int64_t>(random() % kTenants);
    const Tenant tenant = {
        absl::StrCat("t", number),
        {.max_requests = 1 + number, .max_inflight_bytes = 100 * (1 + number)}};
    auto permit = gate_.Admit(static_cast<int64_t>(random() % 120),
                              absl::InfiniteFuture(), tenant);
    if (permit.ok()) {
      ++admitted_;
      if (permit->Grow(static_cast<int64_t>(random() % 80)).ok()) ++grown_;
      held.push_back(*std::move(permit));
    } else if (RefusalOf(permit.status()) == Refusal::kTenantQuota) {
      ++over_quota_;
    }
    const TenantLedger::Account account = gate_.HeldBy(tenant.name);
    EXPECT_LE(account.requests, tenant.quota.max_requests);
    EXPECT_LE(account.bytes, tenant.quota.max_inflight_bytes);
    EXPECT_GE(account.bytes, 0);
  }

  FakeClock clock_;
  Admission gate_;
  std::atomic<int> admitted_ = 0;
  std::atomic<int> grown_ = 0;
  std::atomic<int> over_quota_ = 0;
};

TEST(TenantQuotaProperty, ManyTenantsOnManyThreadsHoldTheirQuotasAndGiveBack) {
  TenantCrowd crowd;
  crowd.Run();
  EXPECT_GT(crowd.admitted_, 0);
  EXPECT_GT(crowd.grown_, 0);
  EXPECT_GT(crowd.over_quota_, 0);
  EXPECT_EQ(crowd.gate_.requests(), 0);
  EXPECT_EQ(crowd.gate_.bytes(), 0);
  for (int i = 0; i < TenantCrowd::kTenants; ++i) {
    EXPECT_EQ(crowd.gate_.HeldBy(absl::StrCat("t", i)).requests, 0);
  }
}

// On one thread the sums can be told exactly.
TEST(TenantQuotaProperty, AccountsAreTheSumsOfWhatIsInside) {
  FakeClock clock;
  Admission gate({.max_concurrent_requests = 50, .max_inflight_bytes = 5000},
                 clock);
  gate.Open();
  std::minstd_rand random(11);
  std::vector<std::pair<std::string, Admission::Permit>> held;
  for (int round = 0; round < 5000; ++round) {
    const Tenant tenant = {absl::StrCat("t", random() % 5),
                           {.max_requests = 9, .max_inflight_bytes = 700}};
    auto permit = gate.Admit(static_cast<int64_t>(random() % 200),
                             absl::InfiniteFuture(), tenant);
    if (permit.ok()) held.emplace_back(tenant.name, *std::move(permit));
    if (!held.empty() && random() % 3 == 0) {
      held[random() % held.size()]
          .second.Grow(static_cast<int64_t>(random() % 90))
          .IgnoreError();
    }
    if (held.size() > 30 || (permit.ok() && random() % 2 == 0)) {
      std::swap(held[random() % held.size()], held.back());
      held.pop_back();
    }
    std::map<std::string, std::pair<int64_t, int64_t>> sums;
    for (const auto& [name, inside] : held) {
      ++sums[name].first;
      sums[name].second += inside.bytes();
    }
    for (int i = 0; i < 5; ++i) {
      const std::string name = absl::StrCat("t", i);
      EXPECT_EQ(gate.HeldBy(name).requests, sums[name].first);
      EXPECT_EQ(gate.HeldBy(name).bytes, sums[name].second);
    }
  }
}

}  // namespace
}  // namespace attn
