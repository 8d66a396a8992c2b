// What a strict reading of the HTTP port found.
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "server/http/http_front.h"
#include "server/http/http_listener.h"
#include "server/http/request_target.h"
#include "tests/server/http/http_client.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(HttpReviewTest, AnAnswerForWhichThereIsNoMemoryIsRefused) {
  HttpListenerOptions options{.endpoints = {{"127.0.0.1", 0}},
                              .max_answers_bytes = kMiB};
  auto listener = HttpListener::Start(
      options, [](const std::shared_ptr<HttpExchange>& exchange) {
        const bool large = exchange->request().path == "/large";
        exchange->Respond({.body = std::string(large ? kMiB + 1 : kMiB, 'a')});
      });
  ASSERT_TRUE(listener.ok());
  HttpClient client((*listener)->ports().front());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.Call({.target = "/large"}).status, 429);
    // Each gives back what it took.
    EXPECT_EQ(client.Call({}).body.size(), kMiB);
  }
}

TEST(HttpReviewTest, AHandlerWithoutMemoryDoesNotEndTheProcess) {
  HttpListenerOptions options{.endpoints = {{"127.0.0.1", 0}}};
  auto listener = HttpListener::Start(
      options,
      [](const std::shared_ptr<HttpExchange>&) { throw std::bad_alloc(); });
  ASSERT_TRUE(listener.ok());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(HttpClient((*listener)->ports().front()).Call({}).status, 500);
  }
}

TEST(HttpReviewTest, AHostThatAnybodyCanHaveIsNotLocal) {
  for (const char* host :
       {"localhost", "LocalHost:8000", "127.0.0.1", "10.0.0.1:80", "[::1]",
        "[::1]:8000", "a.localhost:1", "host.docker.internal:8000"}) {
    EXPECT_TRUE(IsLocalHost(host)) << host;
  }
  for (const char* host : {"", "a.example", "localhost.example:8000",
                           "127.0.0.1.example", "alocalhost", "[a]:80"}) {
    EXPECT_FALSE(IsLocalHost(host)) << host;
  }
}

// Nothing that is asked here calls on the channel.
class HttpReviewFront : public ::testing::Test {
 protected:
  void SetUp() override {
    HttpFrontOptions options;
    options.listener.endpoints = {{"127.0.0.1", 0}};
    options.channel =
        grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
    options.serving = [] { return true; };
    options.cors_origins = {"https://named.example"};
    options.local_only = true;
    auto front = HttpFront::Start(options);
    ASSERT_TRUE(front.ok());
    front_ = *std::move(front);
  }
  HttpReply GetAs(const std::string& host, const std::string& target) {
    HttpClient client(front_->ports().front());
    client.Send(
        absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
    return client.Read();
  }

  std::unique_ptr<HttpFront> front_;
};

TEST_F(HttpReviewFront, APageWhoseNameStandsForThisMachineIsRefused) {
  EXPECT_EQ(GetAs("evil.example:8000", "/").status, 403);
  EXPECT_EQ(GetAs("evil.example:8000", "/explorer/story").status, 403);
  EXPECT_EQ(GetAs("evil.example:8000", "/healthz").status, 200);
  EXPECT_EQ(GetAs("localhost:8000", "/").status, 200);
  EXPECT_EQ(GetAs("named.example", "/").status, 200);
}

TEST_F(HttpReviewFront, JsonThatWouldExpandIsNotParsed) {
  HttpClient client(front_->ports().front());
  const HttpReply reply =
      client.Call({.method = "POST",
                   .target = "/explorer/story",
                   .body = std::string(size_t{1} << 20, '['),
                   .headers = {"Content-Type: application/json"}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("1048576 bytes"));
}

}  // namespace
}  // namespace attn
