// The end of a listener.
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/server/http/http_client.h"
#include "tests/server/http/serving_listener.h"

namespace attn {
namespace {

constexpr absl::Duration kLongStop = absl::Seconds(60);

TEST(HttpStopTest, AnOwedAnswerIsGivenAndTheIdleAreClosed) {
  ServingListener server;
  HttpClient owed(server.port());
  HttpClient idle(server.port());
  ASSERT_EQ(idle.Call({}).status, 200);
  ASSERT_TRUE(owed.Send(RequestText({.target = "/held"})));
  const auto exchange = server.Next();
  ASSERT_NE(exchange, nullptr);
  std::atomic<bool> stopped{false};
  std::thread stop([&] {
    server.Stop(kLongStop);
    stopped = true;
  });
  EXPECT_TRUE(idle.IsClosed());
  EXPECT_FALSE(stopped);
  exchange->Respond({.body = "the last"});
  const HttpReply reply = owed.Read();
  EXPECT_EQ(reply.body, "the last");
  EXPECT_EQ(reply.Header("connection"), "close");
  EXPECT_TRUE(owed.IsClosed());
  stop.join();
  EXPECT_EQ(HttpClient(server.port()).Call({}).status, 0);
}

// It is far more than what the system takes off our hands.
TEST(HttpStopTest, AnAnswerThatIsBeingSentIsNotCutShort) {
  constexpr size_t kBytes = size_t{32} << 20;
  ServingListener server;
  HttpClient reading(server.port());
  HttpClient idle(server.port());
  ASSERT_EQ(idle.Call({}).status, 200);
  ASSERT_TRUE(reading.Send(RequestText({.target = "/held"})));
  {
    const auto exchange = server.Next();
    ASSERT_NE(exchange, nullptr);
    exchange->Respond({.body = std::string(kBytes, 'x')});
  }
  std::thread stop([&] { server.Stop(kLongStop); });
  EXPECT_TRUE(idle.IsClosed());
  const HttpReply reply = reading.Read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body.size(), kBytes);
  stop.join();
}

TEST(HttpStopTest, WithoutPatienceWhoComputesIsTold) {
  ServingListener server;
  HttpClient client(server.port());
  ASSERT_TRUE(client.Send(RequestText({.target = "/held"})));
  const auto exchange = server.Next();
  ASSERT_NE(exchange, nullptr);
  std::atomic<int> told{0};
  exchange->OnGone([&told] { ++told; });
  server.Stop(absl::ZeroDuration());
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(client.IsClosed());
  exchange->Respond({.body = "too late"});
}

TEST(HttpStopTest, PatienceEnds) {
  ServingListener server;
  HttpClient client(server.port());
  ASSERT_TRUE(client.Send(RequestText({.target = "/held"})));
  const auto exchange = server.Next();
  ASSERT_NE(exchange, nullptr);
  bool told = false;
  exchange->OnGone([&told] { told = true; });
  server.Stop(absl::Milliseconds(20));
  EXPECT_TRUE(told);
  EXPECT_TRUE(client.IsClosed());
}

TEST(HttpStopTest, AHalfReadRequestIsNotBegun) {
  ServingListener server;
  HttpClient client(server.port());
  ASSERT_TRUE(
      client.Send("POST /held HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf"));
  server.Stop(kLongStop);
  EXPECT_TRUE(client.IsClosed());
}

TEST(HttpStopTest, CallersMayComeAndGoMeanwhile) {
  for (int round = 0; round < 10; ++round) {
    ServingListener server;
    std::atomic<bool> ended{false};
    std::thread calling([&] {
      while (!ended) {
        HttpClient client(server.port());
        client.Call({.method = "POST", .body = "body"});
        client.Call({.target = "/dropped"});
      }
    });
    EXPECT_EQ(HttpClient(server.port()).Call({}).status, 200);
    server.Stop(round % 2 == 0 ? kLongStop : absl::ZeroDuration());
    ended = true;
    calling.join();
  }
}

}  // namespace
}  // namespace attn
