#include "server/sessions/session_store.h"

#include <algorithm>
#include <set>

#include "tests/server/sessions/session_fixture.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SessionStoreTest : public SessionFixture {};

TEST_F(SessionStoreTest, ASessionOpensEmptyAndPinned) {
  SessionSettings settings = TestSettings();
  settings.layers = 3;
  settings.pipeline = "scale > softmax";
  const Pin pin = Open("alice", std::move(settings));
  ASSERT_TRUE(pin.held());
  EXPECT_EQ(pin.state().epoch, 1U);
  EXPECT_EQ(pin.state().next_step, 0U);
  EXPECT_FALSE(pin.state().last.has_value());
  ASSERT_THAT(pin.state().layers, SizeIs(3));
  for (const KvSequence& layer : pin.state().layers) {
    EXPECT_EQ(layer.length(), 0);
    EXPECT_EQ(layer.layout(), TestSettings().layout);
  }
  EXPECT_EQ(pin.settings().pipeline, "scale > softmax");
  EXPECT_THAT(TryAcquire(pin.id()), HasReason("SESSION_BUSY"));
}

TEST_F(SessionStoreTest, AnIdIs32LowerCaseHexadecimalDigits) {
  const std::string id = Open().id();
  EXPECT_EQ(id.size(), 32U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
}

// With 256 ids, a bit that is random is always the same with probability
// 2^-255.
TEST_F(SessionStoreTest, AllBitsOfAnIdVary) {
  std::vector<std::set<int>> seen(128);
  for (int i = 0; i < 256; ++i) {
    const std::string id = Open().id();
    for (size_t digit = 0; digit < 32; ++digit) {
      const int value = std::stoi(id.substr(digit, 1), nullptr, 16);
      for (size_t bit = 0; bit < 4; ++bit) {
        seen[digit * 4 + bit].insert(value >> bit & 1);
      }
    }
  }
  for (const std::set<int>& values : seen) EXPECT_THAT(values, SizeIs(2));
}

TEST_F(SessionStoreTest, WhatAStepChangedIsThereForTheNext) {
  Pin pin = Open();
  const std::string id = pin.id();
  Step(pin, 2, 10);
  pin.Release();
  EXPECT_FALSE(pin.held());
  pin = Acquire(id);
  Step(pin, 1, 12);
  EXPECT_EQ(pin.id(), id);
  EXPECT_EQ(pin.state().next_step, 2U);
  EXPECT_THAT(RowsOf(pin.state().layers[0]), ElementsAre(10, 11, 12));
}

TEST_F(SessionStoreTest, APinIsExclusiveUntilItEnds) {
  Pin first = Open();
  const std::string id = first.id();
  EXPECT_EQ(TryAcquire(id).code(), absl::StatusCode::kUnavailable);
  first.Release();
  EXPECT_TRUE(TryAcquire(id).ok());
  {
    const Pin second = Acquire(id);
    EXPECT_THAT(TryAcquire(id), HasReason("SESSION_BUSY"));
  }
  EXPECT_TRUE(TryAcquire(id).ok());
}

TEST_F(SessionStoreTest, AMovedPinPinsOnce) {
  Pin first = Open();
  const std::string id = first.id();
  Pin second = std::move(first);
  EXPECT_TRUE(second.held());
  EXPECT_THAT(TryAcquire(id), HasReason("SESSION_BUSY"));
  Pin other = Open();
  const std::string other_id = other.id();
  // Lets go of the other one.
  other = std::move(second);
  EXPECT_TRUE(TryAcquire(other_id).ok());
  EXPECT_THAT(TryAcquire(id), HasReason("SESSION_BUSY"));
  other.Release();
  other.Release();
  EXPECT_TRUE(TryAcquire(id).ok());
}

TEST_F(SessionStoreTest, OthersDoNotSeeThatASessionIsThere) {
  const std::string id = OpenIdle(1, "alice");
  const std::string none(32, '0');
  EXPECT_EQ(TryAcquire(id, "bob"), SessionNotHere(id));
  EXPECT_EQ(TryAcquire(none, "bob"), SessionNotHere(none));
  EXPECT_EQ(store_->Describe(id, "bob").status(), SessionNotHere(id));
  EXPECT_FALSE(store_->Close(id, "bob"));
  EXPECT_THAT(store_->List("bob", "", 10), IsEmpty());
  EXPECT_TRUE(TryAcquire(id, "alice").ok());
  // Nor when it is pinned, or gone.
  const Pin pin = Acquire(id);
  EXPECT_EQ(TryAcquire(id, "bob"), SessionNotHere(id));
}

TEST_F(SessionStoreTest, AMalformedIdIsNotHere) {
  const std::string id = OpenIdle(0);
  std::string upper = id;
  std::transform(upper.begin(), upper.end(), upper.begin(), ::toupper);
  // An id of digits only has no upper case.
  if (upper == id) upper += '0';
  for (const std::string& other :
       {std::string(), std::string("x"), id.substr(0, 31), id + "0", upper,
        std::string(1 << 20, 'a'), std::string(32, '\0')}) {
    EXPECT_THAT(TryAcquire(other), HasReason("SESSION_NOT_HERE"));
    EXPECT_EQ(TryAcquire(other).code(), absl::StatusCode::kNotFound);
    EXPECT_FALSE(store_->Close(other, "alice"));
  }
}

TEST_F(SessionStoreTest, AClosedSessionIsNotHere) {
  const std::string id = OpenIdle(2);
  EXPECT_EQ(UsedBlocks(), 2);
  EXPECT_TRUE(store_->Close(id, "alice"));
  EXPECT_EQ(UsedBlocks(), 0);
  EXPECT_EQ(store_->totals().sessions, 0);
  EXPECT_EQ(Ended(SessionEnd::kClient), 1);
  EXPECT_THAT(TryAcquire(id), HasReason("SESSION_NOT_HERE"));
  EXPECT_FALSE(store_->Close(id, "alice"));
  EXPECT_EQ(Ended(SessionEnd::kClient), 1);
}

TEST_F(SessionStoreTest, CloseHidesAPinnedSessionAndFreesItWhenThePinEnds) {
  Pin pin = Open();
  const std::string id = pin.id();
  Step(pin, 1, 5);
  EXPECT_TRUE(store_->Close(id, "alice"));
  EXPECT_FALSE(store_->Close(id, "alice"));
  EXPECT_THAT(TryAcquire(id), HasReason("SESSION_NOT_HERE"));
  EXPECT_THAT(store_->Describe(id, "alice").status(),
              HasReason("SESSION_NOT_HERE"));
  EXPECT_THAT(store_->List("alice", "", 10), IsEmpty());
  EXPECT_EQ(store_->totals().sessions, 0);
  // Whoever has it goes on.
  EXPECT_EQ(UsedBlocks(), 1);
  Step(pin, 1, 6);
  EXPECT_THAT(RowsOf(pin.state().layers[0]), ElementsAre(5, 6));
  pin.Release();
  EXPECT_EQ(UsedBlocks(), 0);
  EXPECT_EQ(Ended(SessionEnd::kClient), 1);
}

TEST_F(SessionStoreTest, ATenantsLastSessionsMayAllBeClosedWhilePinned) {
  Pin first = Open();
  Pin second = Open();
  const std::string third = OpenIdle(1);
  EXPECT_TRUE(store_->Close(first.id(), "alice"));
  EXPECT_TRUE(store_->Close(third, "alice"));
  EXPECT_TRUE(store_->Close(second.id(), "alice"));
  Step(first, 1);
  Step(second, 1);
  second.Release();
  // Another one of the tenant begins in between.
  const std::string fourth = OpenIdle(1);
  first.Release();
  EXPECT_EQ(Describe(fourth).bytes, kTestBlockBytes);
  EXPECT_EQ(UsedBlocks(), 1);
  EXPECT_EQ(Ended(SessionEnd::kClient), 3);
}

TEST_F(SessionStoreTest, ASessionIsDescribedAsItIs) {
  SessionSettings settings = TestSettings();
  settings.layers = 2;
  Pin pin = Open("alice", std::move(settings));
  const std::string id = pin.id();
  Step(pin, 65);
  Advance(absl::Seconds(2));
  pin.Release(/*used=*/true);
  Advance(absl::Seconds(3));
  const SessionSnapshot snapshot = Describe(id);
  EXPECT_EQ(snapshot.id, id);
  EXPECT_EQ(snapshot.settings->layers, 2);
  EXPECT_EQ(snapshot.epoch, 1U);
  EXPECT_EQ(snapshot.next_step, 1U);
  EXPECT_THAT(snapshot.lengths, ElementsAre(65, 0));
  EXPECT_EQ(snapshot.bytes, 2 * kTestBlockBytes);
  EXPECT_EQ(snapshot.own_bytes, 2 * kTestBlockBytes);
  EXPECT_EQ(snapshot.idle, absl::Seconds(3));
  EXPECT_EQ(snapshot.age, absl::Seconds(5));
}

TEST_F(SessionStoreTest, APinnedSessionIsToldAsOfItsLastRelease) {
  Pin pin = Open();
  const std::string id = pin.id();
  Step(pin, 3);
  EXPECT_THAT(Describe(id).lengths, ElementsAre(0));
  EXPECT_EQ(Describe(id).bytes, 0);
  pin.Release();
  pin = Acquire(id);
  Step(pin, 70);
  ASSERT_TRUE(pin.state().layers[0].Truncate(2, 0).ok());
  pin.state().epoch = 9;
  EXPECT_THAT(Describe(id).lengths, ElementsAre(3));
  EXPECT_THAT(store_->List("alice", "", 1).at(0).lengths, ElementsAre(3));
  EXPECT_EQ(Describe(id).epoch, 1U);
  EXPECT_EQ(Describe(id).next_step, 1U);
  pin.Release();
  EXPECT_THAT(Describe(id).lengths, ElementsAre(2));
  EXPECT_EQ(Describe(id).epoch, 9U);
}

TEST_F(SessionStoreTest, TheTenantsSessionsAreListedPageByPageInOrderOfIds) {
  std::vector<std::string> ids;
  for (int i = 0; i < 200; ++i) {
    ids.push_back(OpenIdle(0, "alice"));
    OpenIdle(0, "bob");
  }
  // A pinned one is there too.
  const Pin pinned = Acquire(ids[0]);
  std::sort(ids.begin(), ids.end());
  std::vector<std::string> listed;
  std::string after;
  for (const size_t expected : {70, 70, 60, 0}) {
    const auto page = store_->List("alice", after, 70);
    ASSERT_THAT(page, SizeIs(expected));
    for (const SessionSnapshot& session : page) listed.push_back(session.id);
    if (!page.empty()) after = page.back().id;
  }
  EXPECT_EQ(listed, ids);
  EXPECT_THAT(store_->List("alice", "", 1000), SizeIs(200));
  EXPECT_THAT(store_->List("alice", "", 0), IsEmpty());
  // What it continues after need not be there any more.
  ASSERT_TRUE(store_->Close(ids[100], "alice"));
  EXPECT_EQ(store_->List("alice", ids[100], 1).at(0).id, ids[101]);
}

TEST_F(SessionStoreTest, ErrorsAreCountedByWhoAnswersWithThem) {
  EXPECT_FALSE(TryAcquire("x").ok());
  store_->Count(SessionError::kWrongEpoch);
  store_->Count(SessionError::kStepReplayed);
  store_->Count(SessionError::kStepReplayed);
  store_->Count(SessionError::kKvMemory);
  EXPECT_THAT(store_->totals().errors, ElementsAre(0, 1, 0, 2, 1));
}

}  // namespace
}  // namespace attn
