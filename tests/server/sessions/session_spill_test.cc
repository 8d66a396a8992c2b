// Idle sessions go to disk and come back as they were.
#include <sys/resource.h>

#include <optional>

#include "tests/server/sessions/spill_fixture.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kOverAnHour = absl::Minutes(61);
constexpr absl::Duration kWhile = absl::Minutes(5);

class SessionSpillTest : public SpillFixture {};

TEST_F(SessionSpillTest, WhoWouldBeEvictedIsSpilledAndComesBackWhole) {
  RestartOnDisk(3);
  const std::string first = OpenOnDisk(2, 100);
  Advance(absl::Seconds(1));
  const std::string second = OpenOnDisk(1, 200, "bob");
  Advance(kWhile);
  const Pin pin = Open();
  Step(pin, kKvBlockTokens);
  EXPECT_TRUE(OnDisk(first));
  EXPECT_FALSE(OnDisk(second, "bob"));
  EXPECT_EQ(Ended(SessionEnd::kEvicted), 0);
  EXPECT_EQ(UsedBlocks(), 2);
  // Nor does it belong to anybody else now.
  EXPECT_THAT(TryAcquire(first, "bob"), HasReason("SESSION_NOT_HERE"));
  // Its way back takes the other's memory.
  ExpectWhole(first, 2, 100);
  EXPECT_TRUE(OnDisk(second, "bob"));
  EXPECT_FALSE(HasFile(first));
  const SessionStore::Totals totals = store_->totals();
  EXPECT_EQ(totals.spills, 2);
  EXPECT_EQ(totals.restores, 1);
  EXPECT_EQ(totals.spilled, 1);
  EXPECT_EQ(totals.spilled_bytes,
            static_cast<int64_t>(std::filesystem::file_size(FileOf(second))));
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(SessionSpillTest, IdleOnesGoAfterAWhileAndNobodyElse) {
  SessionStoreOptions options;
  options.spill_after = absl::Minutes(2);
  RestartOnDisk(10, options);
  const std::string idle = OpenOnDisk(1, 1);
  const Pin pinned = Open("alice", SpilledSettings());
  Step(pinned, 5);
  Advance(absl::Minutes(2) - absl::Milliseconds(1));
  const std::string fresh = OpenOnDisk(1, 2);
  store_->SpillIdle();
  EXPECT_FALSE(OnDisk(idle));
  Advance(absl::Milliseconds(1));
  store_->SpillIdle();
  EXPECT_TRUE(OnDisk(idle));
  EXPECT_FALSE(OnDisk(fresh));
  EXPECT_EQ(UsedBlocks(), 2);
  ExpectWhole(idle, 1, 1);
}

TEST_F(SessionSpillTest, WhatIsToldOfASpilledOneIsWhatItHad) {
  const std::string id = OpenOnDisk(2, 1);
  Advance(kWhile);
  store_->SpillIdle();
  const SessionSnapshot told = Describe(id);
  EXPECT_THAT(told.lengths, ElementsAre(2 * kKvBlockTokens));
  EXPECT_EQ(told.epoch, 1U);
  EXPECT_EQ(told.next_step, 1U);
  EXPECT_EQ(told.bytes, 0);
  EXPECT_EQ(told.own_bytes, 0);
  EXPECT_EQ(told.spilled_bytes,
            static_cast<int64_t>(std::filesystem::file_size(FileOf(id))));
  EXPECT_EQ(told.idle, kWhile);
  EXPECT_THAT(store_->List("alice", "", 10), SizeIs(1));
  EXPECT_EQ(store_->totals().bytes, 0);
}

TEST_F(SessionSpillTest, EverythingComesBackAfterARestart) {
  const std::string first = OpenOnDisk(2, 100);
  Advance(kWhile);
  const std::string second = OpenOnDisk(1, 200, "bob");
  const std::string empty = Open("alice", SpilledSettings(3)).id();
  EXPECT_EQ(store_->SpillAll(), 0);
  EXPECT_EQ(UsedBlocks(), 0);
  wall_ += absl::Seconds(30);
  RestartOnDisk(10);
  EXPECT_EQ(store_->totals().sessions, 3);
  EXPECT_EQ(store_->totals().spilled, 3);
  EXPECT_EQ(UsedBlocks(), 0);
  EXPECT_EQ(Describe(first).idle, kWhile + absl::Seconds(30));
  EXPECT_EQ(Describe(first).age, kWhile + absl::Seconds(30));
  ExpectWhole(first, 2, 100);
  ExpectWhole(second, 1, 200, "bob");
  EXPECT_THAT(Acquire(empty).state().layers, SizeIs(3));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(SessionSpillTest, ARollbackIsStillTheLastCall) {
  std::string id;
  {
    const Pin pin = Open("alice", SpilledSettings());
    Step(pin, 100);
    ASSERT_TRUE(pin.state().layers[0].Truncate(10, 0).ok());
    ++pin.state().epoch;
    pin.state().rolled_back_to = 10;
    id = pin.id();
  }
  store_->SpillAll();
  RestartOnDisk(10);
  const Pin pin = Acquire(id);
  EXPECT_EQ(pin.state().epoch, 2U);
  EXPECT_EQ(pin.state().rolled_back_to, 10);
  EXPECT_FALSE(pin.state().last.has_value());
  EXPECT_EQ(pin.state().layers[0].length(), 10);
}

TEST_F(SessionSpillTest, AnAnswerThatWasNotKeptIsStillNot) {
  std::string id;
  {
    const Pin pin = Open("alice", SpilledSettings());
    Step(pin, 1);
    pin.state().last = SessionAnswer{.step = 0, .digest = 5, .message = {}};
    id = pin.id();
  }
  store_->SpillAll();
  const Pin pin = Acquire(id);
  ASSERT_TRUE(pin.state().last.has_value());
  EXPECT_EQ(pin.state().last->digest, 5U);
  EXPECT_FALSE(pin.state().last->message.has_value());
}

TEST_F(SessionSpillTest, ForksHaveFilesAndThenMemoryOfTheirOwn) {
  std::string id;
  std::string fork;
  {
    const Pin pin = Open("alice", SpilledSettings());
    Step(pin, 2 * kKvBlockTokens, 7);
    const auto forked = store_->Fork(pin, std::nullopt, 0, "alice");
    ASSERT_TRUE(forked.ok()) << forked.status();
    id = pin.id();
    fork = forked->id();
  }
  EXPECT_EQ(UsedBlocks(), 2);
  store_->SpillAll();
  EXPECT_THAT(Files(), SizeIs(2));
  const Pin first = Acquire(id);
  const Pin second = Acquire(fork);
  EXPECT_EQ(UsedBlocks(), 4);
  EXPECT_EQ(RowsOf(first.state().layers[0]), RowsOf(second.state().layers[0]));
  EXPECT_EQ(first.state().layers[0].own_bytes(), 2 * kTestBlockBytes);
}

TEST_F(SessionSpillTest, OneThatExpiresOrIsClosedTakesItsFileAlong) {
  const std::string expires = OpenOnDisk(1, 1);
  const std::string closed = OpenOnDisk(1, 2);
  store_->SpillAll();
  EXPECT_THAT(Files(), SizeIs(2));
  EXPECT_TRUE(store_->Close(closed, "alice"));
  EXPECT_FALSE(HasFile(closed));
  Advance(SessionStoreOptions().idle_timeout);
  EXPECT_THAT(TryAcquire(expires), HasReason("SESSION_EXPIRED"));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(store_->totals().spilled, 0);
  EXPECT_EQ(store_->totals().spilled_bytes, 0);
}

TEST_F(SessionSpillTest, TimeGoesOnWhileThereIsNoServer) {
  const std::string id = OpenOnDisk(1, 1);
  store_->SpillAll();
  wall_ += kOverAnHour;
  RestartOnDisk(10);
  EXPECT_THAT(TryAcquire(id), HasReason("SESSION_EXPIRED"));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(SessionSpillTest, AClockThatWasSetBackCostsNobodyASession) {
  const std::string id = OpenOnDisk(1, 1);
  store_->SpillAll();
  wall_ -= kOverAnHour;
  RestartOnDisk(10);
  ExpectWhole(id, 1, 1);
}

TEST_F(SessionSpillTest, WhereThereIsNoRoomTheFileStays) {
  RestartOnDisk(2);
  const std::string id = OpenOnDisk(2, 1);
  store_->SpillAll();
  std::optional<Pin> pin = Open("bob", SpilledSettings());
  Step(*pin, 1);
  EXPECT_THAT(TryAcquire(id), HasReason("KV_MEMORY"));
  EXPECT_TRUE(OnDisk(id));
  EXPECT_TRUE(HasFile(id));
  pin.reset();
  Advance(kWhile);
  ExpectWhole(id, 2, 1);
}

TEST_F(SessionSpillTest, ComingBackIsATenantsMemoryToo) {
  SessionStoreOptions options;
  options.max_tenant_bytes = BytesOfBlocks(2);
  RestartOnDisk(10, options);
  const std::string id = OpenOnDisk(2, 1);
  store_->SpillAll();
  // While it is on disk it is not.
  const std::string other = OpenOnDisk(2, 2);
  EXPECT_THAT(TryAcquire(id), HasReason("KV_MEMORY"));
  EXPECT_TRUE(OnDisk(id));
  EXPECT_TRUE(store_->Close(other, "alice"));
  ExpectWhole(id, 2, 1);
}

TEST_F(SessionSpillTest, ADamagedFileCostsItsOwnerOnceAndNobodyElse) {
  const std::string bad = OpenOnDisk(1, 1);
  const std::string good = OpenOnDisk(1, 2);
  store_->SpillAll();
  std::string bytes = ReadWhole(FileOf(bad));
  bytes[bytes.size() / 2] ^= 1;
  WriteWhole(FileOf(bad), bytes);
  const absl::Status status = TryAcquire(bad);
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(status, HasReason("SESSION_DAMAGED"));
  EXPECT_THAT(TryAcquire(bad), HasReason("SESSION_NOT_HERE"));
  EXPECT_EQ(Ended(SessionEnd::kDamaged), 1);
  EXPECT_EQ(SpillErrors(SpillError::kDamaged), 1);
  EXPECT_THAT(log_, ElementsAre(HasSubstr(FileOf(bad))));
  EXPECT_EQ(UsedBlocks(), 0);
  ExpectWhole(good, 1, 2);
  EXPECT_THAT(Files(), ElementsAre(bad + ".session.damaged"));
  EXPECT_EQ(store_->totals().spilled_bytes, 0);
}

TEST_F(SessionSpillTest, WhatIsDamagedAtTheStartIsSetAside) {
  const std::string bad = OpenOnDisk(1, 1);
  const std::string other = OpenOnDisk(1, 3);
  const std::string good = OpenOnDisk(1, 2);
  store_->SpillAll();
  WriteWhole(FileOf(bad), "half");
  // Whole, but not what this server opens.
  {
    const auto file = SessionFile::Open(path(), other);
    ASSERT_TRUE(file.ok());
    SessionRecord record = file->record();
    record.opening = "something else";
    record.layers = {};
    record.last->message_bytes = 0;
    ASSERT_TRUE(WriteSessionFile(path(), record, {}, "").ok());
  }
  RestartOnDisk(10);
  EXPECT_THAT(TryAcquire(bad), HasReason("SESSION_NOT_HERE"));
  EXPECT_THAT(TryAcquire(other), HasReason("SESSION_NOT_HERE"));
  ExpectWhole(good, 1, 2);
  EXPECT_EQ(SpillErrors(SpillError::kDamaged), 2);
  EXPECT_THAT(log_, SizeIs(2));
  EXPECT_THAT(Files(), SizeIs(2));
}

TEST_F(SessionSpillTest, BeyondMaxSpillBytesSessionsAreEvictedAsBefore) {
  RestartOnDisk(2, {}, kTestBlockBytes + 4096);
  const std::string first = OpenOnDisk(1, 1);
  Advance(absl::Seconds(1));
  const std::string second = OpenOnDisk(1, 2);
  Advance(kWhile);
  const Pin pin = Open("bob", SpilledSettings());
  Step(pin, 2 * kKvBlockTokens);
  EXPECT_TRUE(OnDisk(first));
  EXPECT_THAT(TryAcquire(second), HasReason("SESSION_EXPIRED"));
  EXPECT_EQ(Ended(SessionEnd::kEvicted), 1);
  EXPECT_EQ(SpillErrors(SpillError::kFull), 1);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("--max-spill-bytes")));
}

TEST_F(SessionSpillTest, ADiskThatFailsCostsNobodyAnythingWhileThereIsMemory) {
  const std::string id = OpenOnDisk(1, 1);
  Advance(kWhile);
  const std::string away = folder_.File("away");
  std::filesystem::rename(path(), away);
  store_->SpillIdle();
  store_->SpillIdle();
  EXPECT_FALSE(OnDisk(id));
  EXPECT_EQ(SpillErrors(SpillError::kWrite), 2);
  // Once, however often it is tried.
  EXPECT_THAT(log_, SizeIs(1));
  ExpectWhole(id, 1, 1);
  EXPECT_EQ(store_->SpillAll(), 1);
  std::filesystem::rename(away, path());
  Advance(kWhile);
  store_->SpillIdle();
  EXPECT_TRUE(OnDisk(id));
  ExpectWhole(id, 1, 1);
}

TEST_F(SessionSpillTest, WithoutFileDescriptorsASessionStaysOnDisk) {
  const std::string id = OpenOnDisk(1, 1);
  store_->SpillAll();
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = TryAcquire(id);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(SpillErrors(SpillError::kRead), 1);
  ExpectWhole(id, 1, 1);
}

TEST_F(SessionSpillTest, TooManySessionsAreEvictedWhereverTheyAre) {
  SessionStoreOptions options;
  options.max_sessions = 2;
  RestartOnDisk(10, options);
  const std::string on_disk = OpenOnDisk(1, 1);
  Advance(kWhile);
  store_->SpillIdle();
  const std::string in_memory = OpenOnDisk(1, 2);
  Open("alice", SpilledSettings()).Release();
  EXPECT_THAT(TryAcquire(on_disk), HasReason("SESSION_EXPIRED"));
  EXPECT_FALSE(HasFile(on_disk));
  ExpectWhole(in_memory, 1, 2);
}

TEST_F(SessionSpillTest, WithoutADiskNothingIsSpilled) {
  Restart(10);
  const std::string id = OpenIdle(1);
  Advance(kWhile);
  EXPECT_FALSE(store_->spills());
  store_->SpillIdle();
  EXPECT_EQ(store_->SpillAll(), 0);
  EXPECT_EQ(Describe(id).bytes, kTestBlockBytes);
}

}  // namespace
}  // namespace attn
