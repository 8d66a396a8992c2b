// What a listener refuses, and whom it does not wait for.
#include <future>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/server/http/http_client.h"
#include "tests/server/http/serving_listener.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

// The answer to such bytes on a connection of their own, which must be closed
// behind it.
HttpReply RefusalOf(const ServingListener& server, const std::string& bytes) {
  HttpClient client(server.port());
  EXPECT_TRUE(client.Send(bytes));
  HttpReply reply = client.Read();
  EXPECT_TRUE(client.IsClosed());
  return reply;
}

std::string MessageOf(const HttpReply& reply) {
  return nlohmann::json::parse(reply.body)["message"];
}

TEST(HttpLimitsTest, WhatIsNoHttpIsRefused) {
  ServingListener server;
  for (const char* bytes :
       {"garbage\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n"}) {
    EXPECT_EQ(RefusalOf(server, bytes).status, 400) << bytes;
  }
  EXPECT_EQ(HttpClient(server.port()).Call({}).status, 200);
}

TEST(HttpLimitsTest, ABodyMustTellItsLength) {
  ServingListener server;
  const HttpReply reply =
      RefusalOf(server,
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                "4\r\nbody\r\n0\r\n\r\n");
  EXPECT_EQ(reply.status, 411);
  EXPECT_THAT(MessageOf(reply), HasSubstr("Content-Length: got "));
  // The bytes behind it must not be taken for a request.
  HttpClient client(server.port());
  ASSERT_TRUE(client.Send("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n" +
                          RequestText({.target = "/smuggled"})));
  const HttpReply other = client.Read();
  EXPECT_GE(other.status, 400);
  EXPECT_TRUE(client.IsClosed());
}

TEST(HttpLimitsTest, ABodyBeyondTheLimitIsRefusedBeforeItIsSent) {
  ServingListener server({.max_body_bytes = 100});
  EXPECT_EQ(HttpClient(server.port())
                .Call({.method = "POST", .body = std::string(100, 'x')})
                .status,
            200);
  for (const char* expect : {"", "Expect: 100-continue\r\n"}) {
    const HttpReply reply =
        RefusalOf(server, absl::StrCat("POST / HTTP/1.1\r\n", expect,
                                       "Content-Length: 101\r\n\r\n"));
    EXPECT_EQ(reply.status, 413);
    EXPECT_THAT(MessageOf(reply), HasSubstr("at most 100"));
  }
}

TEST(HttpLimitsTest, ARefusedClientThatSendsOnStillReadsTheAnswer) {
  ServingListener server({.max_body_bytes = 100});
  HttpClient client(server.port());
  ASSERT_TRUE(client.Send("POST / HTTP/1.1\r\nContent-Length: 500000\r\n\r\n"));
  client.Send(std::string(500000, 'x'));
  EXPECT_EQ(client.Read().status, 413);
}

TEST(HttpLimitsTest, HeadersBeyondTheLimitAreRefused) {
  ServingListener server;
  EXPECT_EQ(HttpClient(server.port())
                .Call({.headers = {"X-Long: " + std::string(15000, 'x')}})
                .status,
            200);
  EXPECT_EQ(RefusalOf(server,
                      RequestText(
                          {.headers = {"X-Long: " + std::string(17000, 'x')}}))
                .status,
            431);
  EXPECT_EQ(
      RefusalOf(server, RequestText({.target = "/" + std::string(17000, 'x')}))
          .status,
      431);
}

TEST(HttpLimitsTest, BodiesBeyondTheBudgetOfAllAreToldToTryAgain) {
  ServingListener server({.max_body_bytes = 100, .max_bodies_bytes = 100});
  const HttpCall held = {
      .method = "POST", .target = "/held", .body = std::string(60, 'x')};
  const HttpCall other = {.method = "POST", .body = std::string(60, 'y')};
  HttpClient first(server.port());
  ASSERT_TRUE(first.Send(RequestText(held)));
  const auto exchange = server.Next();
  ASSERT_NE(exchange, nullptr);
  EXPECT_EQ(RefusalOf(server, RequestText(other)).status, 429);
  // Forty bytes are free.
  EXPECT_EQ(HttpClient(server.port())
                .Call({.method = "POST", .body = std::string(40, 'z')})
                .status,
            200);
  exchange->Respond({.body = "done"});
  EXPECT_EQ(first.Read().body, "done");
  EXPECT_TRUE(ComesTrue(
      [&] { return HttpClient(server.port()).Call(other).status == 200; }));
}

TEST(HttpLimitsTest, WhoLeavesGivesItsPartOfTheBudgetBack) {
  ServingListener server({.max_body_bytes = 100, .max_bodies_bytes = 100});
  const HttpCall call = {.method = "POST", .body = std::string(100, 'y')};
  {
    HttpClient computed(server.port());
    ASSERT_TRUE(computed.Send(RequestText(
        {.method = "POST", .target = "/held", .body = std::string(100, 'x')})));
    const auto exchange = server.Next();
    ASSERT_NE(exchange, nullptr);
    EXPECT_EQ(HttpClient(server.port()).Call(call).status, 429);
    std::promise<void> gone;
    exchange->OnGone([&gone] { gone.set_value(); });
    computed.Close();
    ASSERT_EQ(gone.get_future().wait_for(std::chrono::seconds(60)),
              std::future_status::ready);
  }
  const auto is_served = [&] {
    return HttpClient(server.port()).Call(call).status == 200;
  };
  EXPECT_TRUE(ComesTrue(is_served));
  {
    // In the middle of its body.
    HttpClient sending(server.port());
    ASSERT_TRUE(sending.Send(
        "POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nthe beginning"));
    EXPECT_TRUE(ComesTrue([&] { return !is_served(); }));
  }
  EXPECT_TRUE(ComesTrue(is_served));
}

TEST(HttpLimitsTest, OneConnectionTooManyIsToldSo) {
  ServingListener server({.max_connections = 2});
  HttpClient first(server.port());
  EXPECT_EQ(first.Call({}).status, 200);
  {
    HttpClient second(server.port());
    EXPECT_EQ(second.Call({}).status, 200);
    HttpClient third(server.port());
    const HttpReply busy = third.Read();
    EXPECT_EQ(busy.status, 503);
    EXPECT_EQ(busy.Header("retry-after"), "1");
    EXPECT_TRUE(third.IsClosed());
    EXPECT_EQ(first.Call({}).status, 200);
  }
  EXPECT_TRUE(ComesTrue(
      [&] { return HttpClient(server.port()).Call({}).status == 200; }));
}

// Each of them would stay for as long as the test waits.
TEST(HttpLimitsTest, WhoIsSlowerThanThePatienceIsClosed) {
  ServingListener server({.patience = absl::Milliseconds(50)});
  for (const char* begun :
       {"", "GET / HTTP/1.1\r\nHos",
        "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nbody"}) {
    HttpClient client(server.port());
    ASSERT_TRUE(client.Send(begun));
    EXPECT_TRUE(client.IsClosed()) << begun;
  }
}

TEST(HttpLimitsTest, AConnectionThatIsKeptForNothingIsClosed) {
  ServingListener server({.patience = absl::Milliseconds(50)});
  HttpClient client(server.port());
  ASSERT_EQ(client.Call({}).status, 200);
  EXPECT_TRUE(client.IsClosed());
}

// The client is not the one who is slow.
TEST(HttpLimitsTest, WhileItIsComputedAClientMayWaitAsLongAsItLikes) {
  ServingListener server({.patience = absl::Milliseconds(50)});
  HttpClient waiting(server.port());
  ASSERT_TRUE(waiting.Send(RequestText({.target = "/held"})));
  const auto exchange = server.Next();
  ASSERT_NE(exchange, nullptr);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(HttpClient(server.port()).IsClosed());
  }
  exchange->Respond({.body = "at last"});
  EXPECT_EQ(waiting.Read().body, "at last");
}

}  // namespace
}  // namespace attn
