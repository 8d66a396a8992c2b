#include "engine/core/field_error.h"
#include "tests/server/sessions/session_fixture.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class SessionForkTest : public SessionFixture {
 protected:
  Pin Fork(const Pin& of, std::optional<int64_t> position = std::nullopt) {
    auto pin = store_->Fork(of, position, 0, "alice");
    EXPECT_TRUE(pin.ok()) << pin.status();
    return pin.ok() ? *std::move(pin) : Pin();
  }
};

TEST_F(SessionForkTest, AForkIsAnotherSessionWithTheSameStateAndSettings) {
  Pin pin = Open();
  Step(pin, 3, 10);
  pin.state().epoch = 5;
  pin.state().last = SessionAnswer{.step = 0, .digest = 7, .message = {}};
  pin.state().rolled_back_to = 2;
  const Pin fork = Fork(pin);
  EXPECT_NE(fork.id(), pin.id());
  EXPECT_EQ(&fork.settings(), &pin.settings());
  EXPECT_EQ(fork.state().epoch, 1U);
  EXPECT_EQ(fork.state().next_step, 0U);
  EXPECT_FALSE(fork.state().last.has_value());
  EXPECT_FALSE(fork.state().rolled_back_to.has_value());
  EXPECT_THAT(RowsOf(fork.state().layers[0]), ElementsAre(10, 11, 12));
  EXPECT_EQ(store_->totals().sessions, 2);
  EXPECT_THAT(TryAcquire(fork.id()), HasReason("SESSION_BUSY"));
}

TEST_F(SessionForkTest, NeitherSeesWhatTheOtherDoes) {
  Pin pin = Open();
  Step(pin, 2, 10);
  const Pin fork = Fork(pin);
  EXPECT_EQ(UsedBlocks(), 1);
  Step(pin, 1, 20);
  Step(fork, 1, 30);
  EXPECT_THAT(RowsOf(pin.state().layers[0]), ElementsAre(10, 11, 20));
  EXPECT_THAT(RowsOf(fork.state().layers[0]), ElementsAre(10, 11, 30));
  EXPECT_EQ(UsedBlocks(), 2);
  EXPECT_TRUE(store_->Close(pin.id(), "alice"));
  pin.Release();
  EXPECT_THAT(RowsOf(fork.state().layers[0]), ElementsAre(10, 11, 30));
  EXPECT_EQ(UsedBlocks(), 1);
}

TEST_F(SessionForkTest, AForkBeginsWhereItIsTold) {
  SessionSettings settings = TestSettings();
  settings.layers = 2;
  const Pin pin = Open("alice", std::move(settings));
  Step(pin, 5);
  ASSERT_TRUE(pin.Reserve({1}, 2).ok());
  AppendRows(pin.state().layers[1], 2);
  // A layer that has fewer stays as it is.
  for (const int64_t position : {0, 1, 3, 5}) {
    const Pin fork = Fork(pin, position);
    EXPECT_EQ(fork.state().layers[0].length(), position);
    EXPECT_EQ(fork.state().layers[1].length(), std::min<int64_t>(position, 2));
    EXPECT_EQ(Describe(fork.id()).lengths[0], position);
  }
  EXPECT_EQ(pin.state().layers[0].length(), 5);
}

TEST_F(SessionForkTest, APositionThatTheSessionDoesNotHaveIsRefused) {
  const Pin pin = Open();
  Step(pin, 5);
  for (const int64_t position : {int64_t{-1}, int64_t{6}, INT64_MAX}) {
    const absl::Status status =
        store_->Fork(pin, position, 0, "alice").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(status), "position");
    EXPECT_THAT(std::string(status.message()), HasSubstr("0 to 5"));
  }
  EXPECT_EQ(store_->totals().sessions, 1);
}

// A position from which a window would see rows that are gone.
TEST_F(SessionForkTest, RowsThatWereReleasedAreMissed) {
  constexpr int64_t kWindow = 8;
  const Pin pin = Open();
  Step(pin, 5 * kKvBlockTokens);
  pin.state().layers[0].Release(0, 4 * kKvBlockTokens);
  const int64_t gone = kKvBlockTokens;
  EXPECT_EQ(store_->Fork(pin, gone, kWindow, "alice").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->totals().sessions, 1);
  EXPECT_TRUE(store_->Fork(pin, 5 * kKvBlockTokens - 1, kWindow, "alice").ok());
}

TEST_F(SessionForkTest, OwnBytesAreThoseThatNoForkShares) {
  Pin pin = Open();
  const std::string id = pin.id();
  Step(pin, 2 * kKvBlockTokens);
  pin.Release();
  EXPECT_EQ(Describe(id).own_bytes, 2 * kTestBlockBytes);
  pin = Acquire(id);
  Pin fork = Fork(pin);
  const std::string fork_id = fork.id();
  Step(fork, 1);
  fork.Release();
  pin.Release();
  EXPECT_EQ(Describe(id).bytes, 2 * kTestBlockBytes);
  EXPECT_EQ(Describe(id).own_bytes, 0);
  EXPECT_EQ(Describe(fork_id).bytes, 3 * kTestBlockBytes);
  EXPECT_EQ(Describe(fork_id).own_bytes, kTestBlockBytes);
  EXPECT_EQ(UsedBlocks(), 3);
}

TEST_F(SessionForkTest, ForksCountAsSessions) {
  SessionStoreOptions options;
  options.max_sessions = 2;
  Restart(10, options);
  const Pin pin = Open();
  const Pin fork = Fork(pin);
  const absl::Status status =
      store_->Fork(pin, std::nullopt, 0, "alice").status();
  EXPECT_THAT(status, HasReason("KV_MEMORY"));
  EXPECT_EQ(store_->totals().sessions, 2);
}

TEST_F(SessionForkTest, SharedBlocksCountForEachOfATenantsSessions) {
  SessionStoreOptions options;
  options.max_tenant_bytes = BytesOfBlocks(5);
  Restart(100, options);
  const Pin pin = Open();
  Step(pin, 2 * kKvBlockTokens);
  {
    const Pin second = Fork(pin);
    const absl::Status third =
        store_->Fork(pin, std::nullopt, 0, "alice").status();
    EXPECT_EQ(third.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(third, HasReason("KV_MEMORY"));
    EXPECT_THAT(std::string(third.message()),
                HasSubstr("--max-tenant-session-bytes"));
    // One block of it still fits.
    EXPECT_TRUE(store_->Fork(pin, kKvBlockTokens, 0, "alice").ok());
    ASSERT_TRUE(store_->Close(second.id(), "alice"));
  }
  EXPECT_TRUE(store_->Fork(pin, std::nullopt, 0, "alice").ok());
}

}  // namespace
}  // namespace attn
