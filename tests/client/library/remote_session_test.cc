#include "client/library/remote_session.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/library/call_status.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/error_details.h"
#include "proto/codec/status_codec.h"
#include "tests/client/library/fake_session_server.h"
#include "tests/client/library/plain_decode.h"
#include "tests/client/library/remote_session_fixture.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using RemoteSessionTest = RemoteSessionFixture;

absl::Status Reasoned(absl::StatusCode code, const std::string& reason) {
  return WithReason(absl::Status(code, "as the test says"), reason);
}

TEST_F(RemoteSessionTest, StepsCountTokensOfEachLayer) {
  StartServers(1);
  RemoteSession session = Open(3);
  PlainDecode decode(3);
  ASSERT_TRUE(decode.Step(session, {0, 2}, 4).ok());
  ASSERT_TRUE(decode.Step(session, {1}, 4, /*bshd=*/true).ok());
  ASSERT_TRUE(decode.Step(session, {2, 0, 1}, 1, /*bshd=*/true).ok());
  EXPECT_EQ(session.length(0), 5);
  EXPECT_EQ(session.length(1), 5);
  const auto steps = server(0).steps();
  ASSERT_THAT(steps, SizeIs(3));
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i].step, i);
  EXPECT_EQ(steps[1].position, 0);
  EXPECT_EQ(steps[2].position, 4);
  EXPECT_THAT(steps[2].layers, ElementsAre(2, 0, 1));
  // Of k and v alone: 15 tokens of 2 + 3 floats, and room for as many more.
  constexpr int64_t kBytes = 15 * (2 + 3) * 4;
  EXPECT_GE(session.replay_bytes(), kBytes);
  EXPECT_LT(session.replay_bytes(), 2 * kBytes);
}

TEST_F(RemoteSessionTest, GoesOnAtTheNextServerWhenItsOwnDies) {
  StartServers(2);
  RemoteSession session = Open(2);
  PlainDecode decode(2);
  ASSERT_TRUE(decode.Step(session, {0, 1}, 3).ok());
  ASSERT_TRUE(decode.Step(session, {0, 1}).ok());
  EXPECT_EQ(session.address(), server(0).address());
  server(0).Kill();
  const absl::Status status = decode.Step(session, {0, 1}, 2);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(session.moves(), 1);
  EXPECT_EQ(session.address(), server(1).address());
  // What was there before is asked nothing about.
  const auto steps = server(1).steps();
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_TRUE(steps[0].zero_query);
  EXPECT_EQ(steps[0].tokens, 4);
  EXPECT_FALSE(steps[1].zero_query);
  EXPECT_EQ(steps[1].position, 4);
  EXPECT_EQ(steps[1].step, 1U);
  ASSERT_TRUE(decode.Step(session, {0, 1}).ok());
}

TEST_F(RemoteSessionTest, LayersMayHaveUnequallyManyTokensWhenItDies) {
  StartServers(2);
  RemoteSession session = Open(3);
  PlainDecode decode(3);
  for (const int layer : {0, 1, 2}) {
    ASSERT_TRUE(decode.Step(session, {layer}, 2).ok());
  }
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  ASSERT_TRUE(decode.Step(session, {1}).ok());
  server(0).Kill();
  ASSERT_TRUE(decode.Step(session, {2}).ok());
  ASSERT_TRUE(decode.Step(session, {0, 1, 2}).ok());
}

TEST_F(RemoteSessionTest, ALostAnswerIsAskedForAgain) {
  StartServers(2);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  server(0).LoseAnswers(1, absl::UnavailableError("Connection reset by peer"));
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  EXPECT_EQ(session.moves(), 0);
  const auto steps = server(0).steps();
  ASSERT_THAT(steps, SizeIs(3));
  EXPECT_TRUE(steps[1].again);
  EXPECT_EQ(steps[1].step, steps[0].step);
}

TEST_F(RemoteSessionTest, AStepThatDiedWithItsServerIsMadeOnce) {
  StartServers(2);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  server(0).DieAfterSteps(1);
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  EXPECT_EQ(session.moves(), 1);
  EXPECT_EQ(session.length(), 3);
}

TEST_F(RemoteSessionTest, ASessionThatIsNotThereIsMadeAgain) {
  StartServers(1);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(session, {0}, 3).ok());
  for (const char* reason : {"SESSION_EXPIRED", "SESSION_NOT_HERE"}) {
    const std::string before = session.id();
    server(0).Forget(reason);
    ASSERT_TRUE(decode.Step(session, {0}).ok()) << reason;
    EXPECT_NE(session.id(), before);
  }
  EXPECT_EQ(session.moves(), 2);
}

TEST_F(RemoteSessionTest, WhatTheServerRefusesIsTheCallers) {
  StartServers(2);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  const std::pair<absl::StatusCode, const char*> refusals[] = {
      {absl::StatusCode::kFailedPrecondition, "SESSION_WRONG_EPOCH"},
      {absl::StatusCode::kResourceExhausted, "SESSION_FULL"},
      {absl::StatusCode::kNotFound, "NOT_FOUND"},
      {absl::StatusCode::kInternal, "INTERNAL"},
  };
  for (const auto& [code, reason] : refusals) {
    server(0).Refuse(1, Reasoned(code, reason));
    const absl::Status status = decode.Step(session, {0});
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(ErrorReasonOf(status), reason);
    // It is as it was.
    ASSERT_TRUE(decode.Step(session, {0}).ok()) << reason;
  }
  EXPECT_EQ(session.moves(), 0);
  EXPECT_EQ(server(1).calls(), 0);
}

TEST_F(RemoteSessionTest, ABusySessionIsWaitedForAndNotLost) {
  StartServers(2);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  const absl::Status busy =
      WithRetryDelay(Reasoned(absl::StatusCode::kUnavailable, "SESSION_BUSY"),
                     absl::Milliseconds(1));
  server(0).Refuse(3, busy);
  EXPECT_TRUE(decode.Step(session, {0}).ok());
  server(0).Refuse(4, busy);
  EXPECT_EQ(ErrorReasonOf(decode.Step(session, {0})), "SESSION_BUSY");
  EXPECT_TRUE(decode.Step(session, {0}).ok());
  EXPECT_EQ(session.moves(), 0);
}

TEST_F(RemoteSessionTest, BeyondItsBoundItSaysThatItCannotGoOn) {
  StartServers(2);
  RemoteSessionOptions options = Options();
  // Two tokens of 2 + 3 floats.
  options.max_replay_bytes = 40;
  auto session = RemoteSession::Open(PlainSession(1), options);
  ASSERT_TRUE(session.ok());
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(*session, {0}, 2).ok());
  EXPECT_TRUE(session->can_replay());
  ASSERT_TRUE(decode.Step(*session, {0}).ok());
  EXPECT_FALSE(session->can_replay());
  EXPECT_EQ(session->replay_bytes(), 0);
  ASSERT_TRUE(decode.Step(*session, {0}).ok());
  server(0).Forget("SESSION_EXPIRED");
  const absl::Status status = decode.Step(*session, {0});
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(ErrorReasonOf(status), "SESSION_EXPIRED");
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_replay_bytes=40"));
  EXPECT_EQ(server(1).calls(), 0);
}

TEST_F(RemoteSessionTest, StepsGoToTheOwnerThatTheServerNames) {
  StartServers(1);
  const std::string& address = server(0).address();
  const std::string owner =
      absl::StrCat("localhost", address.substr(address.rfind(':')));
  server(0).Advertise(owner);
  RemoteSession session = Open(1);
  EXPECT_EQ(session.address(), owner);
  PlainDecode decode(1);
  EXPECT_TRUE(decode.Step(session, {0}).ok());
  server(0).Advertise("nobody");
  const auto none = RemoteSession::Open(PlainSession(1), Options());
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("nobody"));
}

TEST_F(RemoteSessionTest, AServerThatCannotTakeItAllIsLeftWithNothing) {
  StartServers(3);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(session, {0}, 3).ok());
  server(1).LoseAnswers(
      1, Reasoned(absl::StatusCode::kResourceExhausted, "KV_MEMORY"));
  server(0).Kill();
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  EXPECT_EQ(session.address(), server(2).address());
  EXPECT_EQ(server(1).sessions(), 0);
}

TEST_F(RemoteSessionTest, AStepThatKillsServersIsNotTakenToAll) {
  StartServers(6);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  for (size_t i = 0; i < 6; ++i) server(i).DieAfterSteps(1);
  EXPECT_TRUE(absl::IsUnavailable(decode.Step(session, {0})));
  // Its own, and three more.
  EXPECT_THAT(server(3).steps(), SizeIs(1));
  EXPECT_EQ(server(4).calls(), 0);
}

TEST_F(RemoteSessionTest, WhenAllAreGoneTheNextCallTriesAnew) {
  StartServers(2);
  RemoteSessionOptions options = Options();
  options.patience = absl::Minutes(1);
  auto session = RemoteSession::Open(PlainSession(1), options);
  ASSERT_TRUE(session.ok());
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(*session, {0}, 3).ok());
  server(0).Kill();
  server(1).Kill();
  const absl::Status status = decode.Step(
      *session, {0}, 1, false, {.deadline = absl::Milliseconds(300)});
  EXPECT_TRUE(IsUnreachable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no other server took the session"));
  FakeSessionServer back(server(1).address());
  EXPECT_TRUE(decode.Step(*session, {0}).ok());
  EXPECT_EQ(session->address(), back.address());
}

TEST_F(RemoteSessionTest, AClosedSessionTakesNoMoreCalls) {
  StartServers(1);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  EXPECT_TRUE(session.Close().ok());
  EXPECT_EQ(server(0).sessions(), 0);
  EXPECT_TRUE(session.Close().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(decode.Step(session, {0})));
  EXPECT_TRUE(absl::IsFailedPrecondition(session.Rollback(0)));
  EXPECT_TRUE(absl::IsFailedPrecondition(session.Fork().status()));
}

TEST_F(RemoteSessionTest, WhatDoesNotFitTogetherIsNamed) {
  StartServers(1);
  RemoteSession session = Open(2);
  PlainDecode decode(2);
  ASSERT_TRUE(decode.Step(session, {0}).ok());
  EXPECT_EQ(FieldOf(session.Step({}).status()), "layers");
  const HostTensor rows(DType::kF32, {1, 2, 1, 2});
  const HostTensor more(DType::kF32, {1, 1, 3, 2});
  StepTensors step{
      .layer = 0, .q = rows.view(), .k = rows.view(), .v = more.view()};
  EXPECT_EQ(FieldOf(session.Step({step}).status()), "v[0].shape");
  step.v = rows.view();
  step.layer = 2;
  EXPECT_EQ(FieldOf(session.Step({step}).status()), "layers[0]");
  step.layer = 0;
  StepTensors other = step;
  other.layer = 1;
  EXPECT_EQ(FieldOf(session.Step({step, other}).status()), "layers[1]");
  EXPECT_THAT(server(0).steps(), SizeIs(1));
}

TEST_F(RemoteSessionTest, OptionsThatCannotBeMeantAreNamed) {
  const auto field = [](const RemoteSessionOptions& options, int layers) {
    return FieldOf(RemoteSession::Open(PlainSession(layers), options).status());
  };
  EXPECT_EQ(field({.addresses = {}}, 1), "addresses");
  EXPECT_EQ(field({.addresses = {"nowhere"}}, 1), "address");
  EXPECT_EQ(field({.max_replay_bytes = -1}, 1), "max_replay_bytes");
  EXPECT_EQ(field({}, 0), "layers");
  EXPECT_EQ(field({.client = {.deadline = absl::ZeroDuration()}}, 1),
            "deadline");
}

TEST_F(RemoteSessionTest, AnAddressThatHangsLeavesTheOthersTheirTime) {
  StartServers(4);
  RemoteSession session = Open(1);
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(session, {0}, 3).ok());
  server(0).Kill();
  server(1).Hang();
  server(2).Hang();
  const absl::Status status = decode.Step(session, {0}, 1, /*bshd=*/false,
                                          {.deadline = absl::Seconds(4)});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(session.address(), server(3).address());
  EXPECT_EQ(server(1).calls(), 1);
  EXPECT_EQ(server(2).calls(), 1);
}

TEST_F(RemoteSessionTest, IsOpenedWhereTheFirstAddressHangs) {
  StartServers(2);
  server(0).Hang();
  const auto session = RemoteSession::Open(PlainSession(1), Options(),
                                           {.deadline = absl::Seconds(2)});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->address(), server(1).address());
}

// Whatever befalls servers, answers and sessions, every output is the right
// one.
TEST_F(RemoteSessionTest, NothingThatHappensToServersChangesTheOutputs) {
  constexpr int kServers = 12;
  constexpr int kSteps = 300;
  StartServers(kServers);
  RemoteSession session = Open(2);
  PlainDecode decode(2);
  std::minstd_rand random(20);
  size_t killed = 0;
  for (int i = 0; i < kSteps; ++i) {
    FakeSessionServer& now = server(killed);
    switch (random() % 40) {
      case 0:
        if (killed + 1 < kServers) server(killed++).Kill();
        break;
      case 1:
        if (killed + 1 < kServers) server(killed++).DieAfterSteps(1);
        break;
      case 2:
        now.LoseAnswers(2, absl::UnavailableError("Broken pipe"));
        break;
      case 3:
        for (const auto& each : servers_) each->Forget("SESSION_EXPIRED");
        break;
      case 4: {
        const auto to = static_cast<int64_t>(
            random() % static_cast<uint64_t>(decode.length(1) + 1));
        ASSERT_TRUE(session.Rollback(to).ok()) << i;
        decode.Rollback(to);
        break;
      }
      default:
        break;
    }
    const int64_t tokens = 1 + static_cast<int64_t>(random() % 3);
    const std::vector<std::vector<int>> ways = {{0}, {1}};
    for (const std::vector<int>& layers : ways) {
      const absl::Status status =
          decode.Step(session, layers, tokens, random() % 2 == 0);
      ASSERT_TRUE(status.ok()) << i << ": " << status;
    }
  }
  EXPECT_GT(killed, 5U);
  EXPECT_GE(session.moves(), static_cast<int64_t>(killed));
}

}  // namespace
}  // namespace attn
