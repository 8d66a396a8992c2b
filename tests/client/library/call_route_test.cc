// Calls about a session tell proxies where they belong.
#include "client/library/call_route.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/library/plain_decode.h"
#include "tests/client/library/remote_session_fixture.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class CallRouteTest : public RemoteSessionFixture {
 protected:
  // What every call of a session must have told.
  static auto Tells(const std::string& owner, const std::string& session_id) {
    return AllOf(Field(&CallRoute::owner, owner),
                 Field(&CallRoute::session_id, session_id));
  }
};

TEST_F(CallRouteTest, AProxyIsToldTheOwnerWhichIsNotCalled) {
  StartServers(1);
  // Nobody is there.
  const std::string owner = "attn-1.attn:8001";
  server(0).Advertise(owner);
  RemoteSessionOptions options = Options();
  options.through_proxy = true;
  auto session = RemoteSession::Open(PlainSession(1), options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->address(), server(0).address());
  EXPECT_EQ(session->owner(), owner);
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(*session, {0}, 3).ok());
  ASSERT_TRUE(session->Rollback(2).ok());
  EXPECT_THAT(server(0).routes(), SizeIs(2));
  EXPECT_THAT(server(0).routes(), Each(Tells(owner, session->id())));
  auto fork = session->Fork();
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->address(), server(0).address());
  EXPECT_THAT(server(0).routes().back(), Tells(owner, session->id()));
  const std::string fork_id = fork->id();
  ASSERT_TRUE(fork->Close().ok());
  EXPECT_THAT(server(0).routes().back().session_id, fork_id);
}

// A fork's answer names its owner, as that of an open does.
TEST_F(CallRouteTest, AnOwnerThatIsCalledByItselfNeedsNoRoute) {
  StartServers(1);
  server(0).Advertise(server(0).address());
  RemoteSession session = Open(1);
  EXPECT_EQ(session.owner(), "");
  PlainDecode decode(1);
  ASSERT_TRUE(decode.Step(session, {0}, 3).ok());
  EXPECT_THAT(server(0).routes(), Each(Tells("", session.id())));
}

TEST_F(CallRouteTest, StreamsOfStepsGoToTheOwner) {
  StartServers(1);
  const auto client = SessionClient::Connect({.address = server(0).address()});
  const auto opened = client->Open(PlainSession(1));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto stream = client->RoutedTo("attn-2:8001").OpenStepStream();
  StepMessage step;
  step.session_id = opened->session_id();
  ASSERT_TRUE(stream->Send(step).ok());
  // No layers and no tensors: whatever the step comes to.
  stream->Receive().IgnoreError();
  EXPECT_THAT(server(0).routes(), Each(Tells("attn-2:8001", "")));
  EXPECT_THAT(server(0).routes(), SizeIs(1));
}

// gRPC ends the process over a header that cannot be one.
TEST_F(CallRouteTest, WhatNoHeaderCanHoldIsNotSent) {
  StartServers(1);
  const auto client = SessionClient::Connect({.address = server(0).address()});
  for (const std::string bad : {"", "two words", "line\nfeed", "caf\xc3\xa9"}) {
    client->RoutedTo(bad).Close(bad).IgnoreError();
    EXPECT_THAT(server(0).routes().back(), Tells("", "")) << bad;
  }
}

TEST_F(CallRouteTest, SeveralServersBehindOneAddressMustSayWhichTheyAre) {
  StartServers(1);
  RemoteSessionOptions options = Options();
  options.addresses = {absl::StrCat("ipv4:", server(0).address())};
  const auto nameless = RemoteSession::Open(PlainSession(1), options);
  EXPECT_TRUE(absl::IsFailedPrecondition(nameless.status()))
      << nameless.status();
  EXPECT_THAT(std::string(nameless.status().message()),
              HasSubstr("--advertise-address"));
  server(0).Advertise(server(0).address());
  auto session = RemoteSession::Open(PlainSession(1), options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->address(), server(0).address());
}

TEST_F(CallRouteTest, SeveralProxiesBehindOneAddressMayBeToldNoOwner) {
  StartServers(1);
  RemoteSessionOptions options = Options();
  options.addresses = {absl::StrCat("ipv4:", server(0).address())};
  options.through_proxy = true;
  auto session = RemoteSession::Open(PlainSession(1), options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->owner(), "");
  PlainDecode decode(1);
  EXPECT_TRUE(decode.Step(*session, {0}, 3).ok());
}

}  // namespace
}  // namespace attn
