// A RemoteSession whose server did what it never answered.
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "client/library/call_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/library/remote_session_fixture.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

absl::Status Late() { return absl::DeadlineExceededError("as the test says"); }

class LostAnswers : public RemoteSessionFixture {
 protected:
  // A session with 5 tokens in each layer on the first of two servers.
  void SetUp() override {
    StartServers(2);
    ASSERT_TRUE(decode_.Step(session(), {0, 1}, 5).ok());
  }
  RemoteSession& session() {
    if (!session_.has_value()) session_ = Open(2);
    return *session_;
  }
  void LoseRollback(int64_t position) {
    server(0).LoseAnswers(1, Late());
    EXPECT_TRUE(absl::IsDeadlineExceeded(session().Rollback(position)));
    EXPECT_EQ(session().length(), decode_.length(0));
  }
  absl::Status StepBoth() { return decode_.Step(session(), {0, 1}); }

  std::optional<RemoteSession> session_;
  PlainDecode decode_{2};
};

TEST_F(LostAnswers, ARollbackThatWasDoneIsMadeAgain) {
  LoseRollback(3);
  ASSERT_TRUE(session().Rollback(3).ok());
  decode_.Rollback(3);
  EXPECT_TRUE(StepBoth().ok());
  EXPECT_EQ(session().moves(), 0);
}

TEST_F(LostAnswers, AfterARollbackThatWasDoneTheSessionIsAsItWas) {
  LoseRollback(3);
  const absl::Status status = StepBoth();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(session().length(), 6);
  EXPECT_TRUE(StepBoth().ok());
  EXPECT_EQ(session().moves(), 0);
}

TEST_F(LostAnswers, AfterARollbackThatWasNotDoneTheSessionIsAsItWas) {
  server(0).Refuse(1, Late());
  EXPECT_TRUE(absl::IsDeadlineExceeded(session().Rollback(3)));
  EXPECT_TRUE(StepBoth().ok());
  EXPECT_EQ(session().length(), 6);
}

TEST_F(LostAnswers, ARollbackThatWasDoneIsFollowedByAnyOther) {
  for (const int64_t second : {1, 0}) {
    LoseRollback(second + 2);
    ASSERT_TRUE(session().Rollback(second).ok());
    decode_.Rollback(second);
    ASSERT_TRUE(decode_.Step(session(), {0, 1}, 5 - second).ok());
  }
  LoseRollback(2);
  ASSERT_TRUE(session().Rollback(4).ok());
  decode_.Rollback(4);
  EXPECT_TRUE(StepBoth().ok());
}

TEST_F(LostAnswers, TwoRollbacksOneAfterTheOther) {
  LoseRollback(4);
  LoseRollback(2);
  LoseRollback(3);
  EXPECT_TRUE(StepBoth().ok());
  EXPECT_EQ(session().length(), 6);
}

TEST_F(LostAnswers, AForkAfterARollbackThatWasDoneHasAllTokens) {
  LoseRollback(3);
  auto fork = session().Fork();
  ASSERT_TRUE(fork.ok()) << fork.status();
  PlainDecode forked = decode_;
  EXPECT_TRUE(forked.Step(*fork, {0, 1}).ok());
  EXPECT_TRUE(StepBoth().ok());
}

TEST_F(LostAnswers, WhatIsToBeRestoredMayFailToo) {
  LoseRollback(3);
  // The rollback again, the same in the new epoch, and the first tokens.
  for (int lost = 1; lost <= 3; ++lost) {
    server(0).LoseAnswers(lost, Late());
    for (int i = 0; i < lost; ++i) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(StepBoth())) << lost << i;
    }
  }
  EXPECT_TRUE(StepBoth().ok());
  EXPECT_EQ(session().length(), 6);
}

TEST_F(LostAnswers, ASessionThatGoesThenIsMadeAnewElsewhere) {
  LoseRollback(3);
  server(0).Kill();
  EXPECT_TRUE(StepBoth().ok());
  EXPECT_EQ(session().length(), 6);
  EXPECT_EQ(session().moves(), 1);
}

TEST_F(LostAnswers, WithoutTheTokensOnlyTheRollbackHelps) {
  RemoteSessionOptions options = Options();
  options.max_replay_bytes = 0;
  session_ = *RemoteSession::Open(PlainSession(2), options);
  decode_ = PlainDecode(2);
  ASSERT_TRUE(decode_.Step(session(), {0, 1}, 5).ok());
  LoseRollback(3);
  const absl::Status status = StepBoth();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Rollback() to 3"));
  EXPECT_TRUE(absl::IsFailedPrecondition(session().Rollback(4)));
  EXPECT_TRUE(absl::IsFailedPrecondition(session().Fork().status()));
  ASSERT_TRUE(session().Rollback(2).ok());
  decode_.Rollback(2);
  EXPECT_TRUE(StepBoth().ok());
}

TEST_F(LostAnswers, AStepMayBeFollowedByAnother) {
  server(0).LoseAnswers(1, Late());
  EXPECT_TRUE(absl::IsDeadlineExceeded(StepBoth()));
  const absl::Status status = decode_.Step(session(), {0, 1}, 2);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(session().length(), 7);
}

TEST_F(LostAnswers, AStepOfOneLayerMayBeFollowedByAnother) {
  ASSERT_TRUE(decode_.Step(session(), {0}, 2).ok());
  server(0).LoseAnswers(1, Late());
  EXPECT_TRUE(absl::IsDeadlineExceeded(decode_.Step(session(), {1}, 2)));
  ASSERT_TRUE(session().Rollback(6).ok());
  decode_.Rollback(6);
  ASSERT_TRUE(decode_.Step(session(), {1}).ok());
  EXPECT_TRUE(StepBoth().ok());
}

TEST_F(LostAnswers, AStepWhoseSessionFoundNoPlaceMayBeFollowedByAnother) {
  server(0).LoseAnswers(Options().client.retry.max_attempts,
                        absl::UnavailableError("Broken pipe"));
  server(0).RefuseSessions();
  server(1).RefuseSessions();
  EXPECT_TRUE(absl::IsUnavailable(StepBoth()));
  EXPECT_EQ(session().moves(), 0);
  const absl::Status status = decode_.Step(session(), {0, 1}, 2);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(session().length(), 7);
}

TEST_F(LostAnswers, AForkIsMadeAgain) {
  server(0).LoseAnswers(1, absl::UnavailableError("Connection reset by peer"));
  auto fork = session().Fork(4);
  ASSERT_TRUE(fork.ok()) << fork.status();
  PlainDecode forked = decode_;
  forked.Rollback(4);
  server(0).LoseAnswers(1, Late());
  EXPECT_TRUE(absl::IsDeadlineExceeded(session().Fork().status()));
  EXPECT_TRUE(forked.Step(*fork, {0, 1}).ok());
  EXPECT_TRUE(StepBoth().ok());
  EXPECT_TRUE(session().Fork().ok());
}

// Whichever answers are lost, and whatever comes next, every output is the
// right one.
TEST_F(LostAnswers, NoneChangesTheOutputs) {
  std::minstd_rand random(7);
  int lost = 0;
  for (int i = 0; i < 500; ++i) {
    if (random() % 3 == 0) {
      server(0).LoseAnswers(1 + static_cast<int>(random() % 2), Late());
    }
    absl::Status status;
    const auto to = static_cast<int64_t>(
        random() % static_cast<uint64_t>(decode_.length(0) + 1));
    switch (random() % 4) {
      case 0:
        status = session().Rollback(to);
        if (status.ok()) decode_.Rollback(to);
        break;
      case 1:
        status = session().Fork().status();
        break;
      default: {
        const int64_t tokens = 1 + static_cast<int64_t>(random() % 3);
        const int longer = decode_.length(0) > decode_.length(1) ? 1 : 0;
        status = decode_.length(0) == decode_.length(1) && random() % 2 == 0
                     ? decode_.Step(session(), {0, 1}, tokens)
                     : decode_.Step(session(), {longer}, tokens);
        break;
      }
    }
    lost += status.ok() ? 0 : 1;
    ASSERT_TRUE(status.ok() || absl::IsDeadlineExceeded(status))
        << i << ": " << status;
  }
  EXPECT_GT(lost, 50);
  EXPECT_EQ(session().moves(), 0);
}

}  // namespace
}  // namespace attn
