#include "server/sessions/session_table.h"
#include "tests/server/sessions/session_fixture.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kTick = absl::Milliseconds(1);

class SessionExpiryTest : public SessionFixture {
 protected:
  static SessionSettings WithTimeout(absl::Duration timeout) {
    SessionSettings settings = TestSettings();
    settings.idle_timeout = timeout;
    return settings;
  }
  std::string OpenWithTimeout(absl::Duration timeout) {
    return Open("alice", WithTimeout(timeout)).id();
  }
};

TEST_F(SessionExpiryTest, ASessionIdleForItsTimeoutHasExpired) {
  const std::string id = OpenWithTimeout(absl::Seconds(60));
  Advance(absl::Seconds(60) - kTick);
  EXPECT_EQ(Describe(id).idle, absl::Seconds(60) - kTick);
  Advance(kTick);
  EXPECT_THAT(TryAcquire(id), HasReason("SESSION_EXPIRED"));
  EXPECT_EQ(TryAcquire(id).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(store_->Describe(id, "alice").status(),
              HasReason("SESSION_EXPIRED"));
  EXPECT_THAT(store_->List("alice", "", 10), IsEmpty());
  EXPECT_FALSE(store_->Close(id, "alice"));
  EXPECT_EQ(Ended(SessionEnd::kIdle), 1);
  EXPECT_EQ(Ended(SessionEnd::kClient), 0);
}

TEST_F(SessionExpiryTest, ToOthersItWasNeverThere) {
  const std::string id = OpenIdle(0, "alice");
  Advance(absl::Minutes(10));
  EXPECT_EQ(TryAcquire(id, "bob"), SessionNotHere(id));
  EXPECT_EQ(TryAcquire(id, "alice"), SessionExpired(id));
}

TEST_F(SessionExpiryTest, TheStoresTimeoutIsTheDefaultAndTheMost) {
  SessionStoreOptions options;
  options.idle_timeout = absl::Seconds(10);
  Restart(10, options);
  const std::string by_default = OpenWithTimeout(absl::ZeroDuration());
  const std::string more = OpenWithTimeout(absl::Seconds(11));
  const std::string less = OpenWithTimeout(absl::Seconds(9));
  Advance(absl::Seconds(9));
  EXPECT_THAT(store_->Describe(less, "alice").status(),
              HasReason("SESSION_EXPIRED"));
  EXPECT_TRUE(store_->Describe(by_default, "alice").ok());
  EXPECT_TRUE(store_->Describe(more, "alice").ok());
  Advance(absl::Seconds(1));
  EXPECT_THAT(TryAcquire(by_default), HasReason("SESSION_EXPIRED"));
  EXPECT_THAT(TryAcquire(more), HasReason("SESSION_EXPIRED"));
}

TEST_F(SessionExpiryTest, AStepIsTimeFromWhichIdlenessCounts) {
  const std::string id = OpenWithTimeout(absl::Seconds(10));
  Advance(absl::Seconds(9));
  Pin pin = Acquire(id);
  Advance(absl::Seconds(9));
  pin.Release(/*used=*/true);
  Advance(absl::Seconds(9));
  EXPECT_EQ(Describe(id).idle, absl::Seconds(9));
  Advance(absl::Seconds(1));
  EXPECT_THAT(TryAcquire(id), HasReason("SESSION_EXPIRED"));
}

TEST_F(SessionExpiryTest, ALookWithoutAStepIsNot) {
  const std::string id = OpenWithTimeout(absl::Seconds(10));
  Advance(absl::Seconds(9));
  Acquire(id).Release(false);
  EXPECT_EQ(Describe(id).idle, absl::Seconds(9));
  Advance(absl::Seconds(1));
  EXPECT_THAT(TryAcquire(id), HasReason("SESSION_EXPIRED"));
}

TEST_F(SessionExpiryTest, ExpiryDoesNotTouchAPinnedSession) {
  Pin pin = Open();
  const std::string id = pin.id();
  Step(pin, 1, 7);
  Advance(absl::Hours(24));
  store_->Expire();
  EXPECT_THAT(TryAcquire(id), HasReason("SESSION_BUSY"));
  EXPECT_TRUE(store_->Describe(id, "alice").ok());
  EXPECT_THAT(store_->List("alice", "", 10), SizeIs(1));
  EXPECT_THAT(RowsOf(pin.state().layers[0]), ElementsAre(7));
  pin.Release(/*used=*/true);
  EXPECT_TRUE(TryAcquire(id).ok());
}

TEST_F(SessionExpiryTest, ExpiredSessionsGoWhenAnybodyCalls) {
  OpenIdle(3, "alice");
  Advance(absl::Minutes(10));
  EXPECT_EQ(UsedBlocks(), 3);
  EXPECT_FALSE(TryAcquire("none", "bob").ok());
  EXPECT_EQ(UsedBlocks(), 0);
  EXPECT_EQ(store_->totals().sessions, 0);
}

TEST_F(SessionExpiryTest, ManyExpiredSessionsAreNotThereThoughTheirMemoryIs) {
  std::vector<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.push_back(OpenIdle(0));
  Advance(absl::Minutes(10));
  EXPECT_THAT(store_->List("alice", "", 1000), IsEmpty());
  for (const std::string& id : ids) {
    EXPECT_THAT(TryAcquire(id), HasReason("SESSION_EXPIRED"));
  }
  EXPECT_EQ(Ended(SessionEnd::kIdle), 1000);
}

TEST_F(SessionExpiryTest, ExpireForgetsAllThatAreDueAndSaysWhenTheNextIs) {
  EXPECT_EQ(store_->Expire(), absl::InfiniteFuture());
  const absl::Time start = clock_.Now();
  for (int i = 0; i < 1000; ++i) OpenWithTimeout(absl::Seconds(2));
  OpenWithTimeout(absl::Seconds(5));
  OpenWithTimeout(absl::Seconds(3));
  EXPECT_EQ(store_->Expire(), start + absl::Seconds(2));
  EXPECT_EQ(store_->totals().sessions, 1002);
  Advance(absl::Seconds(2));
  EXPECT_EQ(store_->Expire(), start + absl::Seconds(3));
  EXPECT_EQ(store_->totals().sessions, 2);
  EXPECT_EQ(Ended(SessionEnd::kIdle), 1000);
  Advance(absl::Seconds(3));
  EXPECT_EQ(store_->Expire(), absl::InfiniteFuture());
  EXPECT_EQ(store_->totals().sessions, 0);
}

TEST_F(SessionExpiryTest, TheOldestOfTooManyIdsIsForgotten) {
  const std::string oldest = OpenIdle(0);
  Advance(kTick);
  const std::string second = OpenIdle(0);
  for (size_t i = 2; i <= kGoneSessions; ++i) {
    Advance(kTick);
    OpenIdle(0);
  }
  Advance(absl::Minutes(10));
  store_->Expire();
  EXPECT_EQ(Ended(SessionEnd::kIdle), static_cast<int64_t>(kGoneSessions) + 1);
  EXPECT_THAT(TryAcquire(oldest), HasReason("SESSION_NOT_HERE"));
  EXPECT_THAT(TryAcquire(second), HasReason("SESSION_EXPIRED"));
}

TEST_F(SessionExpiryTest, BeyondTheMostSessionsTheOneIdleLongestGoes) {
  SessionStoreOptions options;
  options.max_sessions = 3;
  Restart(10, options);
  const std::string first = OpenIdle(0);
  Advance(kTick);
  const std::string second = OpenIdle(0, "bob");
  Advance(kTick);
  const Pin third = Open();
  // Used again: now the other one is idle longest.
  Acquire(first).Release(/*used=*/true);
  Advance(options.evict_after);
  const Pin fourth = Open();
  EXPECT_TRUE(fourth.held());
  EXPECT_THAT(TryAcquire(second, "bob"), HasReason("SESSION_EXPIRED"));
  EXPECT_TRUE(store_->Describe(first, "alice").ok());
  EXPECT_EQ(store_->totals().sessions, 3);
  EXPECT_EQ(Ended(SessionEnd::kEvicted), 1);
}

TEST_F(SessionExpiryTest, BeyondTheMostSessionsNoneOpensIfNoneCanGo) {
  SessionStoreOptions options;
  options.max_sessions = 2;
  Restart(10, options);
  const Pin pinned = Open();
  Advance(absl::Seconds(60));
  const std::string fresh = OpenIdle(0);
  Advance(options.evict_after - kTick);
  const absl::Status status =
      store_->Open(std::make_shared<SessionSettings>(TestSettings()), "bob")
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status, HasReason("KV_MEMORY"));
  EXPECT_TRUE(SessionRetryDelay(status).has_value());
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("the server has 2 sessions"));
  EXPECT_EQ(store_->totals().sessions, 2);
  Advance(kTick);
  EXPECT_TRUE(Open("bob").held());
}

// Its timeout is shorter than what eviction waits for.
TEST_F(SessionExpiryTest, AnExpiredSessionMakesRoomHoweverShortItWasIdle) {
  SessionStoreOptions options;
  options.max_sessions = 1;
  Restart(10, options);
  OpenWithTimeout(absl::Seconds(1));
  Advance(absl::Seconds(1));
  EXPECT_TRUE(Open("bob").held());
  EXPECT_EQ(Ended(SessionEnd::kIdle), 1);
  EXPECT_EQ(Ended(SessionEnd::kEvicted), 0);
}

}  // namespace
}  // namespace attn
