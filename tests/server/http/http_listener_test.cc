#include "server/http/http_listener.h"

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/http/http_client.h"
#include "tests/server/http/serving_listener.h"

namespace attn {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpListenerTest : public ::testing::Test {
 protected:
  ServingListener server_;
};

TEST_F(HttpListenerTest, AConnectionServesRequestAfterRequest) {
  HttpClient client(server_.port());
  for (const char* body : {"first", "", "third"}) {
    const HttpReply reply =
        client.Call({.method = "POST", .target = "/a%20b?x=1", .body = body});
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, absl::StrCat("POST /a b x=1 x-twice:  ", body));
    EXPECT_NE(reply.Header("connection"), "close");
  }
}

TEST_F(HttpListenerTest, RequestsThatComeAtOnceAreAnsweredInOrder) {
  HttpClient client(server_.port());
  std::string all;
  for (const char* body : {"one", "two", "three"}) {
    absl::StrAppend(
        &all, RequestText({.method = "PUT", .target = "/many", .body = body}));
  }
  ASSERT_TRUE(client.Send(all));
  for (const char* body : {"one", "two", "three"}) {
    EXPECT_THAT(client.Read().body, EndsWith(body));
  }
  EXPECT_EQ(client.Call({}).status, 200);
}

// The second is read while the first is computed, and begun behind it.
TEST_F(HttpListenerTest, ARequestBehindOneThatIsComputedWaitsForIt) {
  HttpClient client(server_.port());
  ASSERT_TRUE(client.Send(RequestText({.target = "/held"})));
  const auto first = server_.Next();
  ASSERT_NE(first, nullptr);
  ASSERT_TRUE(client.Send(RequestText({.target = "/second"})));
  first->Respond({.body = "first"});
  EXPECT_EQ(client.Read().body, "first");
  EXPECT_THAT(client.Read().body, HasSubstr("/second"));
}

TEST_F(HttpListenerTest, ARequestMayComeByteByByte) {
  HttpClient client(server_.port());
  const std::string text =
      RequestText({.method = "POST", .target = "/slow", .body = "body"});
  for (const char byte : text) ASSERT_TRUE(client.Send({&byte, 1}));
  EXPECT_EQ(client.Read().body, "POST /slow x-twice:  body");
}

TEST_F(HttpListenerTest, HeadersThatStandTwiceAreJoined) {
  HttpClient client(server_.port());
  EXPECT_THAT(client.Call({.headers = {"X-Twice: a", "x-tWICE: b"}}).body,
              HasSubstr("x-twice: a, b"));
}

// RFC 9110, section 9.3.2.
TEST_F(HttpListenerTest, HeadGetsTheHeadersOfGetAndNoBody) {
  HttpClient client(server_.port());
  const HttpReply get = client.Call({.target = "/same"});
  const HttpReply head = client.Call({.method = "HEAD", .target = "/same"});
  EXPECT_EQ(head.status, get.status);
  // "GET" has one letter less.
  EXPECT_EQ(head.Header("content-length"), absl::StrCat(get.body.size() + 1));
  EXPECT_THAT(client.Call({.target = "/next"}).body, StartsWith("GET /next"));
}

// RFC 9110, section 8.6.
TEST_F(HttpListenerTest, AStatusWithoutABodyTellsNoLength) {
  HttpClient client(server_.port());
  for (const int status : {204, 304}) {
    const HttpReply reply =
        client.Call({.target = absl::StrCat("/status/", status)});
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(reply.headers.count("content-length"), 0U);
  }
  EXPECT_EQ(client.Call({.target = "/status/404"}).Header("content-length"),
            "0");
}

TEST_F(HttpListenerTest, WhoAsksForItIsClosedAfterTheAnswer) {
  HttpClient polite(server_.port());
  const HttpReply reply = polite.Call({.headers = {"Connection: close"}});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.Header("connection"), "close");
  EXPECT_TRUE(polite.IsClosed());
  HttpClient old(server_.port());
  ASSERT_TRUE(old.Send("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_EQ(old.Read().status, 200);
  EXPECT_TRUE(old.IsClosed());
}

// RFC 9110, section 10.1.1.
TEST_F(HttpListenerTest, WhoExpectsAContinueGetsItBeforeTheBody) {
  HttpClient client(server_.port());
  ASSERT_TRUE(
      client.Send("POST /big HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                  "Content-Length: 4\r\n\r\n"));
  EXPECT_EQ(client.Read().status, 100);
  ASSERT_TRUE(client.Send("body"));
  const HttpReply reply = client.Read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, EndsWith("body"));
}

TEST_F(HttpListenerTest, AnExchangeThatIsDroppedIsAnErrorOfTheServer) {
  HttpClient client(server_.port());
  EXPECT_EQ(client.Call({.target = "/dropped"}).status, 500);
  EXPECT_EQ(client.Call({}).status, 200);
}

TEST_F(HttpListenerTest, WhoComputesIsToldThatTheClientLeft) {
  for (const bool left_before : {false, true}) {
    HttpClient client(server_.port());
    ASSERT_TRUE(client.Send(RequestText({.target = "/held"})));
    const auto exchange = server_.Next();
    ASSERT_NE(exchange, nullptr);
    if (left_before) {
      client.Close();
      std::promise<void> first;
      exchange->OnGone([&first] { first.set_value(); });
      ASSERT_EQ(first.get_future().wait_for(std::chrono::seconds(60)),
                std::future_status::ready);
    }
    std::promise<void> gone;
    exchange->OnGone([&gone] { gone.set_value(); });
    client.Close();
    EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(60)),
              std::future_status::ready);
    exchange->Respond({.body = "to nobody"});
  }
}

TEST_F(HttpListenerTest, WhoHasAnsweredIsToldNothing) {
  bool told = false;
  HttpClient client(server_.port());
  {
    ASSERT_TRUE(client.Send(RequestText({.target = "/held"})));
    const auto exchange = server_.Next();
    ASSERT_NE(exchange, nullptr);
    exchange->OnGone([&told] { told = true; });
    exchange->Respond({.body = "answer"});
    // Only the first counts.
    exchange->Respond({.body = "another"});
    EXPECT_EQ(client.Read().body, "answer");
    EXPECT_EQ(client.Call({}).status, 200);
    client.Close();
  }
  server_.Stop(absl::ZeroDuration());
  EXPECT_FALSE(told);
}

TEST_F(HttpListenerTest, APortThatIsTakenIsNamed) {
  HttpListenerOptions options;
  options.endpoints = {{"127.0.0.1", 0}, {"127.0.0.1", server_.port()}};
  const auto second =
      HttpListener::Start(options, [](const std::shared_ptr<HttpExchange>&) {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(absl::StrCat("127.0.0.1:", server_.port())));
}

// One caller: keeps a connection, opens others, leaves before the answer.
void CallAround(int port, int caller) {
  HttpClient kept(port);
  for (int i = 0; i < 20; ++i) {
    const std::string body = absl::StrCat("body ", caller, " ", i);
    const HttpReply echoed = kept.Call({.method = "POST", .body = body});
    EXPECT_THAT(echoed.body, EndsWith(body));
    EXPECT_EQ(kept.Call({.target = "/held"}).body, "answered");
    EXPECT_EQ(HttpClient(port).Call({}).status, 200);
    HttpClient leaving(port);
    leaving.Send(RequestText({.target = "/held", .body = body}));
  }
}

// Answers until it is asked to end.
void AnswerHeld(ServingListener& server) {
  bool asked_to_end = false;
  while (!asked_to_end) {
    const auto exchange = server.Next();
    ASSERT_NE(exchange, nullptr);
    asked_to_end = exchange->request().body == "end";
    exchange->OnGone([] {});
    exchange->Respond({.body = "answered"});
  }
}

TEST_F(HttpListenerTest, CallersDoNotDisturbEachOther) {
  constexpr int kCallers = 4;
  std::thread answering([this] { AnswerHeld(server_); });
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back(CallAround, server_.port(), caller);
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(
      HttpClient(server_.port()).Call({.target = "/held", .body = "end"}).body,
      "answered");
  answering.join();
}

}  // namespace
}  // namespace attn
