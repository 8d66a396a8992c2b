#include <future>
#include <thread>

#include "tests/server/sessions/session_fixture.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kLongIdle = absl::Minutes(5);

class SessionMemoryTest : public SessionFixture {
 protected:
  static SessionSettings WithLayers(int layers) {
    SessionSettings settings = TestSettings();
    settings.layers = layers;
    return settings;
  }
  bool IsHere(const std::string& id, const std::string& tenant = "alice") {
    return store_->Describe(id, tenant).ok();
  }
};

TEST_F(SessionMemoryTest, EveryNamedLayerHasRoom) {
  Restart(10);
  const Pin pin = Open("alice", WithLayers(3));
  ASSERT_TRUE(pin.Reserve({0, 2}, kKvBlockTokens + 1).ok());
  EXPECT_EQ(UsedBlocks(), 4);
  AppendRows(pin.state().layers[0], kKvBlockTokens + 1);
  AppendRows(pin.state().layers[2], kKvBlockTokens + 1);
  EXPECT_EQ(UsedBlocks(), 4);
  EXPECT_EQ(pin.state().layers[1].bytes(), 0);
}

TEST_F(SessionMemoryTest, TheOneIdleLongestGoesFirstAndNoMoreThanItTakes) {
  Restart(4);
  std::vector<std::string> ids;
  for (const char* tenant : {"alice", "bob", "alice", "bob"}) {
    ids.push_back(OpenIdle(1, tenant));
    Advance(absl::Seconds(1));
  }
  // The first one was used since.
  Acquire(ids[0]).Release(/*used=*/true);
  Advance(kLongIdle);
  const Pin pin = Open();
  Step(pin, 2 * kKvBlockTokens);
  EXPECT_TRUE(IsHere(ids[0]));
  EXPECT_THAT(TryAcquire(ids[1], "bob"), HasReason("SESSION_EXPIRED"));
  EXPECT_THAT(TryAcquire(ids[2]), HasReason("SESSION_EXPIRED"));
  EXPECT_TRUE(IsHere(ids[3], "bob"));
  EXPECT_EQ(Ended(SessionEnd::kEvicted), 2);
  EXPECT_EQ(UsedBlocks(), 4);
}

TEST_F(SessionMemoryTest, WhoWasIdleForLessThanEvictAfterStays) {
  Restart(2);
  const std::string id = OpenIdle(2);
  const Pin pin = Open("bob");
  Advance(SessionStoreOptions().evict_after - absl::Milliseconds(1));
  const absl::Status status = pin.Reserve({0}, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status, HasReason("KV_MEMORY"));
  EXPECT_TRUE(SessionRetryDelay(status).has_value());
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("--max-session-bytes=" + std::to_string(BytesOfBlocks(2))));
  EXPECT_TRUE(IsHere(id));
  Advance(absl::Milliseconds(1));
  EXPECT_TRUE(pin.Reserve({0}, 1).ok());
  EXPECT_FALSE(IsHere(id));
}

TEST_F(SessionMemoryTest, AnExpiredSessionMakesRoomBeforeAnyOther) {
  Restart(2);
  const std::string longer_idle = OpenIdle(1);
  Advance(kLongIdle);
  const Pin pin = Open();
  {
    SessionSettings settings = TestSettings();
    settings.idle_timeout = absl::Seconds(1);
    Step(Open("bob", std::move(settings)), 1);
  }
  Advance(absl::Seconds(1));
  EXPECT_TRUE(pin.Reserve({0}, 1).ok());
  EXPECT_EQ(Ended(SessionEnd::kIdle), 1);
  EXPECT_EQ(Ended(SessionEnd::kEvicted), 0);
  EXPECT_TRUE(IsHere(longer_idle));
}

TEST_F(SessionMemoryTest, APinnedSessionIsNeverEvicted) {
  Restart(2);
  const Pin pinned = Open();
  Step(pinned, 2 * kKvBlockTokens);
  Advance(kLongIdle);
  const Pin pin = Open();
  EXPECT_THAT(pin.Reserve({0}, 1), HasReason("KV_MEMORY"));
  EXPECT_EQ(pinned.state().layers[0].length(), 2 * kKvBlockTokens);
  EXPECT_EQ(Ended(SessionEnd::kEvicted), 0);
}

// Evicting one of two that share all gives nothing yet.
TEST_F(SessionMemoryTest, EvictionGoesOnUntilBlocksAreReallyFree) {
  Restart(2);
  {
    const Pin pin = Open();
    Step(pin, 2 * kKvBlockTokens);
    ASSERT_TRUE(store_->Fork(pin, std::nullopt, 0, "alice").ok());
  }
  Advance(kLongIdle);
  const Pin pin = Open();
  EXPECT_TRUE(pin.Reserve({0}, 1).ok());
  EXPECT_EQ(Ended(SessionEnd::kEvicted), 2);
}

TEST_F(SessionMemoryTest, WhatIsRefusedTookNothing) {
  SessionStoreOptions options;
  options.max_tenant_bytes = BytesOfBlocks(3);
  Restart(4, options);
  const Pin other = Open("bob");
  Step(other, 2 * kKvBlockTokens);
  const Pin pin = Open("alice", WithLayers(3));
  Step(pin, 3, 1);
  // One is left, two are needed.
  ASSERT_EQ(UsedBlocks(), 3);
  EXPECT_THAT(pin.Reserve({1, 2}, 1), HasReason("KV_MEMORY"));
  EXPECT_EQ(UsedBlocks(), 3);
  EXPECT_THAT(RowsOf(pin.state().layers[0]), ElementsAre(1, 2, 3));
  EXPECT_EQ(pin.state().layers[1].length(), 0);
  // Nor is the tenant charged for it.
  EXPECT_TRUE(pin.Reserve({2}, 1).ok());
}

TEST_F(SessionMemoryTest, WhatCouldNeverFitEvictsNobody) {
  Restart(4);
  const std::string id = OpenIdle(2);
  Advance(kLongIdle);
  const Pin pin = Open();
  Step(pin, 1);
  const absl::Status status = pin.Reserve({0}, 4 * kKvBlockTokens);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status, HasReason("KV_MEMORY"));
  EXPECT_FALSE(SessionRetryDelay(status).has_value());
  EXPECT_THAT(std::string(status.message()), HasSubstr("--max-session-bytes"));
  EXPECT_TRUE(IsHere(id));
  // All but one token of the budget do.
  EXPECT_TRUE(pin.Reserve({0}, 4 * kKvBlockTokens - 1).ok());
  EXPECT_FALSE(IsHere(id));
}

TEST_F(SessionMemoryTest, ASessionHasNoMoreThanItsMaxTokens) {
  Restart(100);
  SessionSettings settings = WithLayers(2);
  settings.max_tokens = 100;
  const Pin pin = Open("alice", std::move(settings));
  Step(pin, 70);
  const absl::Status status = pin.Reserve({1, 0}, 31);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status, HasReason("SESSION_FULL"));
  EXPECT_FALSE(SessionRetryDelay(status).has_value());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("max_tokens"), HasSubstr("100"), HasSubstr("70"),
                    HasSubstr("31")));
  EXPECT_EQ(UsedBlocks(), 2);
  EXPECT_TRUE(pin.Reserve({1}, 31).ok());
  EXPECT_TRUE(pin.Reserve({0}, 30).ok());
}

TEST_F(SessionMemoryTest, ATenantsSessionsHaveNoMoreThanItsBytes) {
  SessionStoreOptions options;
  options.max_tenant_bytes = BytesOfBlocks(3);
  Restart(100, options);
  const std::string id = OpenIdle(2, "alice");
  Advance(kLongIdle);
  const Pin pin = Open("alice");
  Step(pin, kKvBlockTokens);
  const absl::Status status = pin.Reserve({0}, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status, HasReason("KV_MEMORY"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--max-tenant-session-bytes=" +
                        std::to_string(BytesOfBlocks(3))));
  EXPECT_TRUE(SessionRetryDelay(status).has_value());
  // Nobody went for it, and others have their own.
  EXPECT_TRUE(IsHere(id));
  EXPECT_EQ(UsedBlocks(), 3);
  Step(Open("bob"), 3 * kKvBlockTokens);
  // Closing makes room.
  ASSERT_TRUE(store_->Close(id, "alice"));
  EXPECT_TRUE(pin.Reserve({0}, 1).ok());
  // Never within the bytes.
  EXPECT_FALSE(
      SessionRetryDelay(pin.Reserve({0}, 4 * kKvBlockTokens)).has_value());
}

TEST_F(SessionMemoryTest, RollbackGivesTheTenantItsBytesBack) {
  SessionStoreOptions options;
  options.max_tenant_bytes = BytesOfBlocks(2);
  Restart(100, options);
  Pin pin = Open();
  const Pin other = Open();
  Step(pin, 2 * kKvBlockTokens);
  EXPECT_THAT(other.Reserve({0}, 1), HasReason("KV_MEMORY"));
  ASSERT_TRUE(pin.state().layers[0].Truncate(kKvBlockTokens, 0).ok());
  pin.Release();
  EXPECT_TRUE(other.Reserve({0}, 1).ok());
}

// A step that failed after it had its room takes it again, not twice.
TEST_F(SessionMemoryTest, RoomThatIsThereIsNotChargedAgain) {
  SessionStoreOptions options;
  options.max_tenant_bytes = BytesOfBlocks(2);
  Restart(100, options);
  Pin pin = Open();
  const std::string id = pin.id();
  Step(pin, kKvBlockTokens);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pin.Reserve({0}, 1).ok()) << i;
    ASSERT_TRUE(pin.Reserve({0}, kKvBlockTokens).ok()) << i;
    EXPECT_EQ(UsedBlocks(), 2);
    pin.Release();
    pin = Acquire(id);
  }
  for (int i = 0; i < 3; ++i) {
    Step(pin, 1);
    ASSERT_TRUE(pin.state().layers[0].Truncate(kKvBlockTokens, 0).ok());
    pin.Release();
    pin = Acquire(id);
  }
  EXPECT_THAT(pin.Reserve({0}, kKvBlockTokens + 1), HasReason("KV_MEMORY"));
}

TEST_F(SessionMemoryTest, BlocksThatAWindowLeftBehindAreNotCharged) {
  SessionStoreOptions options;
  options.max_tenant_bytes = BytesOfBlocks(4);
  Restart(100, options);
  Pin pin = Open();
  const std::string id = pin.id();
  for (int i = 0; i < 20; ++i) {
    Step(pin, kKvBlockTokens / 2);
    KvSequence& layer = pin.state().layers[0];
    layer.Release(0, layer.length() - 1);
    pin.Release();
    EXPECT_LE(Describe(id).bytes, 4 * kTestBlockBytes);
    pin = Acquire(id);
  }
  EXPECT_EQ(pin.state().layers[0].length(), 10 * kKvBlockTokens);
}

TEST_F(SessionMemoryTest, WhatASessionTakesBesideBlocksIsCounted) {
  Restart(10);
  Pin pin = Open();
  const std::string id = pin.id();
  const int64_t itself = BytesOfEmptySession(pin.settings());
  EXPECT_GT(itself, 0);
  EXPECT_EQ(store_->totals().bytes, itself);
  pin.state().last = SessionAnswer{.charge = pin.Charge(100)};
  EXPECT_EQ(store_->totals().bytes, itself + 100);
  pin.state().last = SessionAnswer{.charge = pin.Charge(30)};
  EXPECT_EQ(store_->totals().bytes, itself + 30);
  pin.Release();
  EXPECT_EQ(store_->totals().max_bytes, BytesOfBlocks(10));
  EXPECT_EQ(Describe(id).bytes, 0);
  ASSERT_TRUE(store_->Close(id, "alice"));
  EXPECT_EQ(store_->totals().bytes, 0);
}

// A server was taken by empty sessions of many layers, which no bound saw.
TEST_F(SessionMemoryTest, EmptySessionsOfManyLayersHaveABound) {
  Restart(10);
  const auto many = std::make_shared<SessionSettings>(TestSettings());
  many->layers = 1024;
  const int64_t most = BytesOfBlocks(10) / BytesOfEmptySession(*many);
  std::vector<Pin> pins;
  for (int64_t i = 0; i < most; ++i) {
    auto pin = store_->Open(many, "alice");
    ASSERT_TRUE(pin.ok()) << pin.status();
    pins.push_back(*std::move(pin));
  }
  const auto refused = store_->Open(many, "bob");
  EXPECT_THAT(refused.status(), HasReason("KV_MEMORY"));
  pins.pop_back();
  Advance(SessionStoreOptions().evict_after);
  EXPECT_TRUE(store_->Open(many, "bob").ok());
}

TEST_F(SessionMemoryTest, AnswersAreNotKeptWithoutRoom) {
  Restart(1);
  const Pin pin = Open();
  EXPECT_EQ(pin.Charge(BytesOfBlocks(1)), nullptr);
}

// Five hundred idle sessions went for one that was refused all the same.
TEST_F(SessionMemoryTest, NobodyGoesWhereAllThatMayGoIsNotEnough) {
  Restart(2);
  const std::string idle = OpenIdle(0);
  Pin pinned = Open();
  ASSERT_TRUE(pinned.Reserve({0}, 2 * kKvBlockTokens).ok());
  Advance(SessionStoreOptions().evict_after);
  const Pin needy = Open("bob");
  EXPECT_THAT(needy.Reserve({0}, 1), HasReason("KV_MEMORY"));
  EXPECT_TRUE(store_->Describe(idle, "alice").ok());
}

TEST_F(SessionMemoryTest, NothingIsLeftOfSessionsThatWent) {
  SessionStoreOptions options;
  options.max_tenant_bytes = BytesOfBlocks(3);
  Restart(100, options);
  for (int i = 0; i < 100; ++i) {
    const std::string id = OpenIdle(3);
    ASSERT_TRUE(store_->Close(id, "alice"));
  }
  EXPECT_EQ(store_->totals().bytes, 0);
  store_->Trim();
  EXPECT_EQ(UsedBlocks(), 0);
}

// Tells when it is destroyed, and waits then.
struct SlowAnswer {
  std::promise<void>* begun;
  std::shared_future<void> end;

  SlowAnswer(std::promise<void>* begun_at, std::shared_future<void> end_at)
      : begun(begun_at), end(std::move(end_at)) {}
  ~SlowAnswer() {
    begun->set_value();
    end.wait();
  }
};

// Time, which says when one thread asks for it.
class WatchedClock : public Clock {
 public:
  absl::Time Now() const override {
    if (std::this_thread::get_id() == watched_) asked_.set_value();
    return now_;
  }
  void Advance(absl::Duration time) { now_ += time; }
  void Watch(std::thread::id thread) { watched_ = thread; }
  std::shared_future<void> asked() const { return future_; }

 private:
  absl::Time now_ = absl::UnixEpoch();
  std::thread::id watched_;
  mutable std::promise<void> asked_;
  std::shared_future<void> future_ = asked_.get_future().share();
};

// The memory of a session that was evicted for somebody else is not back yet
// when the next one looks for some: it is waited for, not refused.
TEST(SessionMemory, MemoryThatIsBeingFreedIsWaitedFor) {
  WatchedClock clock;
  SessionStoreOptions options;
  options.max_bytes = BytesOfBlocks(2);
  SessionStore store(options, clock);
  const auto settings = std::make_shared<SessionSettings>(TestSettings());
  std::promise<void> begun;
  {
    auto victim = store.Open(settings, "alice");
    ASSERT_TRUE(victim->Reserve({0}, 2 * kKvBlockTokens).ok());
    victim->state().last = SessionAnswer{
        .step = 0,
        .digest = 0,
        .message = std::make_shared<SlowAnswer>(&begun, clock.asked())};
  }
  clock.Advance(options.evict_after);
  auto first = store.Open(settings, "alice");
  auto second = store.Open(settings, "alice");
  absl::Status status;
  std::thread evictor([&] { status = first->Reserve({0}, 1); });
  begun.get_future().wait();
  // It asks for the time with the lock held, so that the victim's end cannot be
  // told before it waits.
  std::thread waiter([&] {
    clock.Watch(std::this_thread::get_id());
    EXPECT_TRUE(second->Reserve({0}, 1).ok());
  });
  evictor.join();
  waiter.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(store.totals().bytes,
            2 * kTestBlockBytes + 2 * BytesOfEmptySession(*settings));
  EXPECT_EQ(store.totals().ended[1] + store.totals().ended[2], 1);
}

}  // namespace
}  // namespace attn
