// The HTTP port: probes, the page, whose pages may call, the story model.
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/integration/server/page_client.h"

namespace attn {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpPort : public ::testing::Test {
 protected:
  explicit HttpPort(const ServerOptions& options = PageOptions())
      : server_(options), client_(PagePort(server_.server())) {}

  HttpReply Get(const std::string& target,
                const std::vector<std::string>& headers = {}) {
    return client_.Call({.target = target, .headers = headers});
  }

  RunningServer server_;
  HttpClient client_;
};

TEST_F(HttpPort, TheProbesAnswer) {
  const HttpReply live = Get("/healthz");
  EXPECT_EQ(live.status, 200);
  EXPECT_EQ(live.body, "ok\n");
  EXPECT_EQ(live.Header("cache-control"), "no-store");
  EXPECT_EQ(Get("/readyz").status, 200);
  EXPECT_EQ(client_.Call({.method = "HEAD", .target = "/readyz"}).status, 200);
}

TEST(HttpPortLifecycle, UntilItIsWarmTheServerLivesAndIsNotReady) {
  const LineLog log(LogFormat::kText, [](const std::string&) {});
  // It is asked to stop while it warms up: it never is warm.
  const auto server = Server::Start(PageOptions(), log, [] { return true; });
  ASSERT_TRUE(server.ok()) << server.status();
  HttpClient client(PagePort(**server));
  EXPECT_EQ(client.Call({.target = "/healthz"}).status, 200);
  EXPECT_EQ(client.Call({.target = "/readyz"}).status, 503);
  EXPECT_EQ(
      client.Call(JsonCall("/v1/attend", JsonOf(RandomRequest({}, 1)))).status,
      503);
  (*server)->Stop();
}

TEST(HttpPortLifecycle, ADrainingServerIsNotReadyAndServesOn) {
  ServerOptions options = PageOptions();
  options.drain_delay = absl::InfiniteDuration();
  RunningServer server(options);
  HttpClient client(PagePort(server.server()));
  EXPECT_EQ(client.Call({.target = "/readyz"}).status, 200);
  std::thread stop([&server] { server.Stop(); });
  EXPECT_TRUE(Becomes(
      [&] { return client.Call({.target = "/readyz"}).status == 503; }));
  EXPECT_EQ(client.Call({.target = "/healthz"}).status, 200);
  EXPECT_EQ(
      client.Call(JsonCall("/v1/attend", JsonOf(RandomRequest({}, 1)))).status,
      200);
  server.server().Hurry();
  stop.join();
  EXPECT_TRUE(client.IsClosed());
}

TEST(HttpPortLifecycle, ATakenPortIsToldWhichFlagToChange) {
  RunningServer first(PageOptions());
  const LineLog log(LogFormat::kText, [](const std::string&) {});
  ServerOptions options = TestOptions();
  options.http_address = absl::StrCat("127.0.0.1:", PagePort(first.server()));
  const auto second = Server::Start(options, log);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr("--http-address=" + options.http_address),
                    HasSubstr("Address already in use")));
}

TEST(HttpPortLifecycle, WithoutAnAddressThereIsNone) {
  RunningServer server;
  EXPECT_EQ(server.server().page_address(), "");
}

TEST_F(HttpPort, ThePageMayLoadNothingFromElsewhere) {
  const HttpReply page = Get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.Header("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.Header("content-security-policy"),
              AllOf(StartsWith("default-src 'self'"),
                    HasSubstr("frame-ancestors 'none'")));
  EXPECT_EQ(page.Header("content-security-policy").find("unsafe"),
            std::string::npos);
  EXPECT_EQ(page.Header("x-content-type-options"), "nosniff");
  EXPECT_EQ(Get("/explorer/index.html").body, page.body);
  EXPECT_EQ(Get("/explorer/main.js").Header("content-type"),
            "text/javascript; charset=utf-8");
}

// RFC 9110, section 13.1.2.
TEST_F(HttpPort, WhoHasTheFileDoesNotGetItAgain) {
  const HttpReply page = Get("/");
  const std::string etag = page.Header("etag");
  const HttpReply again = Get("/", {"If-None-Match: " + etag});
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.Header("etag"), etag);
  EXPECT_EQ(again.headers.count("content-length"), 0U);
  EXPECT_EQ(Get("/", {"If-None-Match: \"other\""}).body, page.body);
  EXPECT_EQ(Get("/explorer/main.js", {"If-None-Match: " + etag}).status, 200);
}

TEST_F(HttpPort, WhatIsNotThereIsSaidInJson) {
  for (const char* path :
       {"/none", "/explorer/", "/explorer/none.js", "/explorer/../main.js",
        "/v2/attend", "/explorer/%2e%2e/%2e%2e/etc/passwd", "/%zz", "/v1"}) {
    const HttpReply reply = Get(path);
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_EQ(json::parse(reply.body)["code"], 5);
    EXPECT_EQ(reply.Header("x-content-type-options"), "nosniff");
  }
  const HttpReply post = client_.Call({.method = "POST", .target = "/"});
  EXPECT_EQ(post.status, 405);
  EXPECT_EQ(post.Header("allow"), "GET, HEAD");
}

constexpr char kOrigin[] = "Origin: https://a.example";
constexpr char kAllowed[] = "access-control-allow-origin";

HttpCall PreflightCall(const std::string& origin) {
  return {.method = "OPTIONS",
          .target = "/v1/attend",
          .headers = {origin, "Access-Control-Request-Method: POST",
                      "Access-Control-Request-Headers: content-type"}};
}

TEST_F(HttpPort, NoOtherPageMayCallUnlessItIsListed) {
  EXPECT_EQ(Get("/v1/server_info", {kOrigin}).headers.count(kAllowed), 0U);
  const HttpReply preflight = client_.Call(PreflightCall(kOrigin));
  EXPECT_EQ(preflight.headers.count(kAllowed), 0U);
  EXPECT_EQ(preflight.headers.count("access-control-allow-methods"), 0U);
}

class HttpPortOfAListedPage : public HttpPort {
 protected:
  HttpPortOfAListedPage() : HttpPort(Options()) {}
  static ServerOptions Options() {
    ServerOptions options = PageOptions();
    options.http_cors_origins = {"https://b.example", "https://a.example"};
    return options;
  }
};

TEST_F(HttpPortOfAListedPage, ItMayCall) {
  const HttpReply reply = Get("/v1/server_info", {kOrigin});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.Header(kAllowed), "https://a.example");
  EXPECT_EQ(reply.Header("vary"), "Origin");
  const HttpReply preflight = client_.Call(PreflightCall(kOrigin));
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.Header(kAllowed), "https://a.example");
  EXPECT_THAT(preflight.Header("access-control-allow-methods"),
              HasSubstr("POST"));
  EXPECT_THAT(preflight.Header("access-control-allow-headers"),
              AllOf(HasSubstr("Content-Type"), HasSubstr("Authorization")));
  // Errors are read by the page too.
  EXPECT_EQ(Get("/v1/layers/none", {kOrigin}).Header(kAllowed),
            "https://a.example");
}

TEST_F(HttpPortOfAListedPage, AnotherMayNot) {
  for (const char* origin :
       {"Origin: https://c.example", "Origin: http://a.example",
        "Origin: https://a.example.c.example", "Origin: null"}) {
    EXPECT_EQ(Get("/v1/server_info", {origin}).headers.count(kAllowed), 0U);
    EXPECT_EQ(client_.Call(PreflightCall(origin)).headers.count(kAllowed), 0U);
  }
  EXPECT_EQ(Get("/v1/server_info").headers.count(kAllowed), 0U);
}

TEST_F(HttpPort, TheStoryModelDescribesItself) {
  const HttpReply reply = Get("/explorer/story");
  EXPECT_EQ(reply.status, 200);
  const json story = json::parse(reply.body);
  EXPECT_EQ(story["headNotes"].size(), story["layers"]);
  for (const json& layer : story["headNotes"]) {
    EXPECT_EQ(layer.size(), story["heads"]);
    for (const json& head : layer) {
      EXPECT_NE(head["kind"], "");
      EXPECT_NE(head["summary"], "");
    }
  }
  EXPECT_EQ(story["heads"].get<int>() % story["kvHeads"].get<int>(), 0);
}

HttpCall StoryCall(const std::string& text) {
  return JsonCall("/explorer/story", json({{"text", text}}).dump());
}

std::vector<float> FloatsOf(const json& tensor) {
  wire::Tensor read;
  EXPECT_TRUE(absl::Base64Unescape(tensor["data"].get<std::string>(),
                                   read.mutable_data()));
  return Floats(read);
}

TEST_F(HttpPort, ATextBecomesTokensAndQkvOfEachLayer) {
  const json story = json::parse(Get("/explorer/story").body);
  const std::string text = "Once upon a time there was a cat.";
  const HttpReply reply = client_.Call(StoryCall(text));
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json reading = json::parse(reply.body);
  const json& tokens = reading["tokens"];
  EXPECT_EQ(tokens[0], json({{"id", 1}, {"text", "<s>"}}));
  std::string joined;
  for (size_t i = 1; i < tokens.size(); ++i) {
    joined += tokens[i]["text"].get<std::string>();
  }
  EXPECT_EQ(joined, " " + text);
  ASSERT_EQ(reading["layers"].size(), story["layers"]);
  for (const json& layer : reading["layers"]) {
    for (const char* name : {"q", "k", "v"}) {
      const json& heads = story[*name == 'q' ? "heads" : "kvHeads"];
      const size_t count =
          heads.get<size_t>() * tokens.size() * story["headDim"].get<size_t>();
      EXPECT_EQ(layer[name]["shape"],
                json({"1", absl::StrCat(heads.get<int>()),
                      absl::StrCat(tokens.size()),
                      absl::StrCat(story["headDim"].get<int>())}));
      EXPECT_EQ(FloatsOf(layer[name]).size(), count);
    }
  }
}

// The model is causal: what comes later changes nothing of what was before.
TEST_F(HttpPort, TheBeginningOfATextIsReadAsIfItWereAll) {
  const json part =
      json::parse(client_.Call(StoryCall("Once upon a time")).body);
  const json whole =
      json::parse(client_.Call(StoryCall("Once upon a time there was")).body);
  const size_t rows = part["tokens"].size();
  const size_t all_rows = whole["tokens"].size();
  ASSERT_LT(rows, all_rows);
  for (size_t i = 0; i < rows; ++i) {
    ASSERT_EQ(part["tokens"][i], whole["tokens"][i]);
  }
  const json& last = part["layers"].back()["q"];
  const std::vector<float> q = FloatsOf(last);
  const std::vector<float> all = FloatsOf(whole["layers"].back()["q"]);
  const size_t heads = std::stoul(last["shape"][1].get<std::string>());
  const size_t row = q.size() / heads / rows;
  for (size_t i = 0; i < q.size(); ++i) {
    const size_t head = i / (rows * row);
    const size_t place = head * all_rows * row + i % (rows * row);
    ASSERT_NEAR(q[i], all[place], 1e-3 * (1 + std::abs(q[i]))) << i;
  }
}

TEST_F(HttpPort, WhatTheStoryModelCannotReadIsNamed) {
  std::string long_text;
  for (int i = 0; i < 1000; ++i) long_text += "cat ";
  const HttpReply too_long = client_.Call(StoryCall(long_text));
  EXPECT_EQ(too_long.status, 400);
  EXPECT_EQ(FieldOfReply(too_long), "text");
  for (const char* body :
       {"{", "[]", "{}", R"({"text":1})", "{\"text\":\"\xFF\"}"}) {
    const HttpReply bad = client_.Call(JsonCall("/explorer/story", body));
    EXPECT_EQ(bad.status, 400) << body;
    EXPECT_EQ(FieldOfReply(bad), "body");
  }
  EXPECT_EQ(client_.Call({.method = "PUT", .target = "/explorer/story"}).status,
            405);
  EXPECT_EQ(client_
                .Call({.method = "POST",
                       .target = "/explorer/story",
                       .body = R"({"text":"a"})",
                       .headers = {"Content-Type: text/plain"}})
                .status,
            415);
}

}  // namespace
}  // namespace attn
