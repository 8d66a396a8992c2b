#include <atomic>
#include <random>
#include <thread>

#include "engine/runtime/mutex.h"
#include "tests/server/sessions/spill_fixture.h"

namespace attn {
namespace {

constexpr int kClients = 4;
constexpr int kCallsOfEach = 400;
constexpr int64_t kMaxBlocks = 24;
constexpr absl::Duration kShortTimeout = absl::Milliseconds(15);
constexpr absl::Duration kEvictAfter = absl::Milliseconds(20);
constexpr absl::Duration kSpillAfter = absl::Milliseconds(8);

// Ids that threads took from each other.
class SharedIds {
 public:
  void Add(const std::string& id) {
    const MutexLock lock(mutex_);
    ids_.push_back(id);
  }
  std::string Any(std::mt19937& random) const {
    const MutexLock lock(mutex_);
    if (ids_.empty()) return "none";
    // Of the last few: most of the others are gone.
    const size_t recent = std::min<size_t>(ids_.size(), 8);
    return ids_[ids_.size() - 1 - random() % recent];
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> ids_;
};

// What a session must hold travels as its kept answer.
using Rows = KeptFloats;

// Nothing says it of one that came back from disk when there was no room for
// its answer.
Rows ExpectedRows(const SessionState& state) {
  const auto* kept = std::any_cast<Rows>(&state.last->message);
  return kept != nullptr ? *kept : RowsOf(state.layers[0]);
}

void Keep(const SessionStore::Pin& pin, Rows rows) {
  const auto bytes = static_cast<int64_t>(rows.size() * sizeof(float));
  pin.state().last = SessionAnswer{.step = pin.state().next_step,
                                   .digest = 0,
                                   .message = std::move(rows),
                                   .charge = pin.Charge(bytes)};
}

// One client: opens, steps, rolls back, forks and closes at random.
class RacingClient {
 public:
  RacingClient(SessionStore& store, FakeClock& clock, SharedIds& ids,
               unsigned seed)
      : store_(store), clock_(clock), ids_(ids), random_(seed) {}

  void Run() {
    for (int i = 0; i < kCallsOfEach; ++i) {
      Call();
      clock_.AdvanceMilliseconds(1);
    }
  }
  int64_t opened() const { return opened_; }
  int64_t stepped() const { return stepped_; }

 private:
  using Pin = SessionStore::Pin;

  void Call() {
    const unsigned choice = random_() % 16;
    if (choice < 2) return Open();
    const std::string id = ids_.Any(random_);
    if (choice == 2) {
      store_.Close(id, "alice");
      return;
    }
    if (choice == 3) {
      store_.List("alice", "", 5);
      return;
    }
    auto pin = store_.Acquire(id, "alice");
    if (!pin.ok()) {
      EXPECT_TRUE(SessionReasonOf(pin.status()).has_value()) << pin.status();
      return;
    }
    EXPECT_EQ(RowsOf(pin->state().layers[0]), ExpectedRows(pin->state()));
    if (choice == 4) return Rollback(*pin);
    if (choice == 5) return Fork(*pin);
    Step(*pin);
  }

  void Open() {
    // Half of them expire before they may be evicted.
    SessionSettings settings = random_() % 2 == 0
                                   ? SpilledSettings(1, kShortTimeout)
                                   : SpilledSettings();
    auto pin = store_.Open(
        std::make_shared<SessionSettings>(std::move(settings)), "alice");
    if (!pin.ok()) return;
    Keep(*pin, {});
    ++opened_;
    ids_.Add(pin->id());
  }

  void Step(const Pin& pin) {
    const auto count = static_cast<int64_t>(1 + random_() % 100);
    const absl::Status reserved = pin.Reserve({0}, count);
    if (!reserved.ok()) {
      EXPECT_THAT(reserved, HasReason("KV_MEMORY"));
      return;
    }
    // Rows that no other session has.
    const auto first = static_cast<float>(random_() % 1000000);
    AppendRows(pin.state().layers[0], count, first);
    Rows rows = ExpectedRows(pin.state());
    for (int64_t i = 0; i < count; ++i) {
      rows.push_back(first + static_cast<float>(i));
    }
    Keep(pin, std::move(rows));
    ++pin.state().next_step;
    ++stepped_;
  }

  void Rollback(const Pin& pin) {
    Rows rows = ExpectedRows(pin.state());
    rows.resize(random_() % (rows.size() + 1));
    const auto length = static_cast<int64_t>(rows.size());
    EXPECT_TRUE(pin.state().layers[0].Truncate(length, 0).ok());
    ++pin.state().epoch;
    Keep(pin, std::move(rows));
  }

  void Fork(const Pin& pin) {
    Rows rows = ExpectedRows(pin.state());
    rows.resize(random_() % (rows.size() + 1));
    auto fork = store_.Fork(pin, static_cast<int64_t>(rows.size()), 0, "alice");
    if (!fork.ok()) return;
    Keep(*fork, std::move(rows));
    ++opened_;
    ids_.Add(fork->id());
    // Both write to what they share.
    Step(*fork);
    Step(pin);
  }

  SessionStore& store_;
  FakeClock& clock_;
  SharedIds& ids_;
  std::mt19937 random_;
  int64_t opened_ = 0;
  int64_t stepped_ = 0;
};

// With a disk, or without.
class SessionRace : public SpillFixture,
                    public ::testing::WithParamInterface<bool> {
 protected:
  SessionRace() {
    SessionStoreOptions options;
    options.max_sessions = 20;
    options.idle_timeout = absl::Milliseconds(300);
    options.evict_after = kEvictAfter;
    options.spill_after = kSpillAfter;
    options.max_tenant_bytes = 3 * kMaxBlocks * kTestBlockBytes;
    if (GetParam()) {
      RestartOnDisk(kMaxBlocks, options);
    } else {
      Restart(kMaxBlocks, options);
    }
  }

  // Somebody else's sessions take half the budget, again and again.
  int64_t CrowdOut() {
    int64_t opened = 0;
    while (!done_) {
      auto pin = store_->Open(
          std::make_shared<SessionSettings>(SpilledSettings()), "bob");
      if (!pin.ok()) continue;
      ++opened;
      (void)pin->Reserve({0}, kMaxBlocks / 2 * kKvBlockTokens);
      const std::string id = pin->id();
      pin->Release();
      if (opened % 2 == 0) store_->Close(id, "bob");
    }
    return opened;
  }

  void LetExpire() {
    while (!done_) {
      store_->Expire();
      store_->SpillIdle();
      (void)store_->totals();
    }
  }

  SharedIds ids_;
  std::atomic<bool> done_{false};
};

TEST_P(SessionRace, NoSessionIsLostOrTouchedUnderAStep) {
  std::vector<RacingClient> clients;
  for (unsigned i = 0; i < kClients; ++i) {
    clients.emplace_back(*store_, clock_, ids_, 100 + i);
  }
  std::vector<std::thread> threads;
  for (RacingClient& client : clients) {
    threads.emplace_back([&client] { client.Run(); });
  }
  int64_t opened = 0;
  std::thread crowd([&] { opened = CrowdOut(); });
  std::thread expirer([&] { LetExpire(); });
  for (std::thread& thread : threads) thread.join();
  done_ = true;
  crowd.join();
  expirer.join();

  int64_t stepped = 0;
  for (const RacingClient& client : clients) {
    opened += client.opened();
    stepped += client.stepped();
  }
  EXPECT_GT(stepped, 0);
  // No pin is left: all that are there can be had, and closed. Those that are
  // in memory may make room for those that are on disk.
  Advance(kEvictAfter);
  for (const std::string tenant : {"alice", "bob"}) {
    for (const auto& session : store_->List(tenant, "", 1000)) {
      EXPECT_TRUE(store_->Acquire(session.id, tenant).ok());
      EXPECT_TRUE(store_->Close(session.id, tenant));
    }
  }
  store_->Expire();
  const SessionStore::Totals totals = store_->totals();
  EXPECT_EQ(totals.sessions, 0);
  EXPECT_EQ(totals.bytes, 0);
  EXPECT_EQ(totals.ended[0] + totals.ended[1] + totals.ended[2], opened);
  EXPECT_EQ(totals.spilled, 0);
  EXPECT_EQ(totals.spilled_bytes, 0);
  EXPECT_THAT(log_, ::testing::IsEmpty());
  // What is to be tried has been tried.
  EXPECT_EQ(totals.restores > 0, GetParam());
  EXPECT_EQ(totals.spills > totals.restores, GetParam());
  // Nothing is charged any more.
  EXPECT_TRUE(Open().Reserve({0}, kMaxBlocks * kKvBlockTokens).ok());
}

INSTANTIATE_TEST_SUITE_P(OnDisk, SessionRace, ::testing::Bool());

}  // namespace
}  // namespace attn
