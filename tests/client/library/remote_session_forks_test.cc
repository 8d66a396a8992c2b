// What a RemoteSession keeps to be sent again: after a rollback, in forks.
#include <cstdint>

#include "absl/status/status.h"
#include "engine/core/field_error.h"
#include "gtest/gtest.h"
#include "tests/client/library/remote_session_fixture.h"

namespace attn {
namespace {

using RemoteSessionForks = RemoteSessionFixture;

TEST_F(RemoteSessionForks, WhatWasRolledBackIsNotReplayed) {
  StartServers(2);
  RemoteSession session = Open(2);
  PlainDecode decode(2);
  ASSERT_TRUE(decode.Step(session, {0, 1}, 5).ok());
  ASSERT_TRUE(decode.Step(session, {0}, 2).ok());
  const uint64_t epoch = session.epoch();
  ASSERT_TRUE(session.Rollback(6).ok());
  decode.Rollback(6);
  EXPECT_NE(session.epoch(), epoch);
  EXPECT_EQ(session.length(0), 6);
  EXPECT_EQ(session.length(1), 5);
  ASSERT_TRUE(session.Rollback(3).ok());
  decode.Rollback(3);
  ASSERT_TRUE(decode.Step(session, {0, 1}, 2).ok());
  server(0).Kill();
  ASSERT_TRUE(decode.Step(session, {0, 1}).ok());
  EXPECT_EQ(session.length(0), 6);
  EXPECT_EQ(server(1).steps()[0].tokens, 5);
}

TEST_F(RemoteSessionForks, ARollbackOfASessionThatIsGoneMakesWhatStays) {
  StartServers(2);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(session, {0}, 5).ok());
  server(0).Kill();
  ASSERT_TRUE(session.Rollback(2).ok());
  decode.Rollback(2);
  EXPECT_EQ(session.length(), 2);
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  EXPECT_EQ(server(1).steps()[0].tokens, 2);
}

TEST_F(RemoteSessionForks, ARollbackThatCannotBeChangesNothing) {
  StartServers(1);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(session, {0}, 3).ok());
  EXPECT_EQ(FieldOf(session.Rollback(4)), "position");
  EXPECT_EQ(FieldOf(session.Rollback(-1)), "position");
  server(0).Refuse(1, absl::FailedPreconditionError("its window is gone"));
  EXPECT_TRUE(absl::IsFailedPrecondition(session.Rollback(1)));
  EXPECT_EQ(session.length(), 3);
  ASSERT_TRUE(decode.Step(session, {0}).ok());
}

TEST_F(RemoteSessionForks, ARollbackSettlesAStepWithoutAnAnswer) {
  StartServers(1);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(session, {0}, 3).ok());
  server(0).LoseAnswers(1, absl::InternalError("half an answer"));
  EXPECT_TRUE(absl::IsInternal(decode.Step(session, {0}, 2)));
  ASSERT_TRUE(session.Rollback(3).ok());
  // Other tokens than those that the server has had.
  ASSERT_TRUE(decode.Step(session, {0}, 1).ok());
  EXPECT_EQ(session.length(), 4);
}

TEST_F(RemoteSessionForks, ForksGoOnApartAlsoElsewhere) {
  StartServers(2);
  RemoteSession session = Open(2);
  PlainDecode decode(2);
  ASSERT_TRUE(decode.Step(session, {0, 1}, 4).ok());
  auto fork = session.Fork();
  ASSERT_TRUE(fork.ok()) << fork.status();
  PlainDecode forked = decode;
  auto early = session.Fork(2);
  ASSERT_TRUE(early.ok()) << early.status();
  PlainDecode early_decode = decode;
  early_decode.Rollback(2);
  EXPECT_EQ(early->length(1), 2);
  ASSERT_TRUE(decode.Step(session, {0, 1}, 2).ok());
  ASSERT_TRUE(forked.Step(*fork, {1, 0}, 3).ok());
  ASSERT_TRUE(early_decode.Step(*early, {0, 1}).ok());
  server(0).Kill();
  ASSERT_TRUE(forked.Step(*fork, {0, 1}).ok());
  ASSERT_TRUE(early_decode.Step(*early, {0, 1}).ok());
  ASSERT_TRUE(decode.Step(session, {0, 1}).ok());
  EXPECT_EQ(server(1).sessions(), 3);
}

TEST_F(RemoteSessionForks, ASessionThatIsGoneIsForkedElsewhere) {
  StartServers(2);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(session, {0}, 4).ok());
  server(0).Kill();
  auto fork = session.Fork(3);
  ASSERT_TRUE(fork.ok()) << fork.status();
  PlainDecode forked = decode;
  forked.Rollback(3);
  EXPECT_TRUE(forked.Step(*fork, {0}).ok());
  EXPECT_TRUE(decode.Step(session, {0}).ok());
}

TEST_F(RemoteSessionForks, NoForkHasTokensThatOnlyTheServerKnows) {
  StartServers(1);
  RemoteSession session = Open(2);
  PlainDecode decode(2);
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  server(0).LoseAnswers(1, absl::InternalError("half an answer"));
  EXPECT_TRUE(absl::IsInternal(decode.Step(session, {1})));
  auto fork = session.Fork();
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(server(0).sessions(), 2);
  PlainDecode forked = decode;
  EXPECT_TRUE(forked.Step(*fork, {1}, 2).ok());
  EXPECT_TRUE(decode.Step(session, {1}).ok());
}

}  // namespace
}  // namespace attn
