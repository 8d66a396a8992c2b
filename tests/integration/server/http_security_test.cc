// The HTTP port behind certificates and tokens.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attention/v1/layer.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/integration/server/https_client.h"
#include "tests/integration/server/page_client.h"
#include "tests/integration/server/pending_call.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kTwoTokens[] =
    "alice wonderland max-requests=1\n"
    "bob builder\n";

class HttpSecurityTest : public ::testing::Test {
 protected:
  HttpSecurityTest() : options_(PageOptions(SecureServer::Options())) {}

  int Port() const { return PagePort(server_.server()); }
  TestCaller Trusting() const { return {.ca = server_.authority().pem()}; }
  TestCaller Showing(const TestSubject& subject) const {
    return {.ca = server_.authority().pem(),
            .identity = server_.authority().Issue(subject)};
  }

  SecureServer server_;
  ServerOptions options_;
};

HttpCall SmallCall() {
  return JsonCall("/v1/attend", JsonOf(RandomRequest({}, 1)));
}

HttpCall StoryOf(const char* text) {
  return JsonCall("/explorer/story", nlohmann::json({{"text", text}}).dump());
}

HttpCall As(const char* token, HttpCall call) {
  call.headers.push_back("Authorization: " + Bearer(token));
  return call;
}

TEST_F(HttpSecurityTest, WithATlsCertificateThePortSpeaksHttps) {
  server_.UseTls(options_);
  server_.Start(options_);
  EXPECT_THAT(server_.server().page_address(),
              StartsWith("https://127.0.0.1:"));
  HttpsClient client(Port(), Trusting());
  EXPECT_EQ(client.peer(), "first");
  EXPECT_EQ(client.Call({}).status, 200);
  EXPECT_EQ(client.Call(SmallCall()).status, 200);
  EXPECT_EQ(client.Call({.target = "/readyz"}).status, 200);
  const TestAuthority stranger("another CA");
  EXPECT_EQ(HttpsClient(Port(), {.ca = stranger.pem()}).Call({}).status, 0);
  // Without TLS there is no answer.
  EXPECT_EQ(HttpClient(Port()).Call({}).status, 0);
  EXPECT_EQ(client.Call({.target = "/healthz"}).status, 200);
}

TEST_F(HttpSecurityTest, ARenewedCertificateIsShownToNewConnections) {
  server_.UseTls(options_);
  server_.Start(options_);
  HttpsClient before(Port(), Trusting());
  EXPECT_EQ(before.peer(), "first");
  server_.WriteCertificate(server_.authority().IssueServer("second"));
  server_.WaitForLog("TLS, read anew: CN = second");
  HttpsClient after(Port(), Trusting());
  EXPECT_EQ(after.peer(), "second");
  EXPECT_EQ(after.Call({}).status, 200);
  EXPECT_EQ(before.Call({}).status, 200);
}

TEST_F(HttpSecurityTest, WithoutAGoodTokenNobodyComesIn) {
  options_.metrics_address = "127.0.0.1:0";
  server_.UseTokens(options_, kTwoTokens);
  server_.Start(options_);
  HttpClient client(Port());
  const HttpReply missing = client.Call(SmallCall());
  EXPECT_EQ(missing.status, 401);
  EXPECT_EQ(missing.Header("www-authenticate"), "Bearer");
  ExpectSameError(missing, server_.Attend({}));
  const HttpReply wrong = client.Call(As("wonder", SmallCall()));
  EXPECT_EQ(wrong.status, 401);
  ExpectSameError(wrong, server_.Attend({.authorization = Bearer("wonder")}));
  EXPECT_EQ(client.Call({.target = "/v1/layers"}).status, 401);
  EXPECT_EQ(client.Call(As("builder", SmallCall())).status, 200);
  // Two over HTTP and two over gRPC, beside the list.
  EXPECT_EQ(server_.RejectionsReaching("unauthenticated", 5), 5);
}

TEST_F(HttpSecurityTest, TheStoryModelReadsForNobodyWithoutAToken) {
  server_.UseTokens(options_, kTwoTokens);
  server_.Start(options_);
  HttpClient client(Port());
  const HttpReply refused = client.Call(StoryOf("Once"));
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.Header("www-authenticate"), "Bearer");
  EXPECT_EQ(client.Call(As("builder", StoryOf("Once"))).status, 200);
}

// What a page needs before somebody types a token in.
TEST_F(HttpSecurityTest, TheFilesOfThePageAndTheProbesNeedNoToken) {
  server_.UseTokens(options_, kTwoTokens);
  server_.Start(options_);
  HttpClient client(Port());
  for (const char* path : {"/", "/explorer/main.js", "/healthz", "/readyz"}) {
    EXPECT_EQ(client.Call({.target = path}).status, 200) << path;
  }
}

// The two ports count together.
TEST_F(HttpSecurityTest, AQuotaIsTheSameOverHttp) {
  server_.UseTokens(options_, kTwoTokens);
  server_.Start(options_);
  PendingCall inside(server_.Connect({}), kAttendPath,
                     ToRequest(SlowRequest()));
  inside.context().AddMetadata("authorization", Bearer("wonderland"));
  inside.Start();
  HttpClient client(Port());
  HttpReply refused;
  EXPECT_TRUE(Becomes([&] {
    refused = client.Call(As("wonderland", SmallCall()));
    return refused.status == 429;
  }));
  EXPECT_THAT(refused.body, HasSubstr("tenant \\\"alice\\\" has 1 requests"));
  EXPECT_NE(refused.Header("retry-after"), "");
  EXPECT_EQ(client.Call(As("builder", SmallCall())).status, 200);
  inside.Cancel();
  inside.Wait();
  EXPECT_TRUE(Becomes([&] {
    return client.Call(As("wonderland", SmallCall())).status == 200;
  }));
}

TEST_F(HttpSecurityTest, AQuotaOfBytesHoldsOverHttp) {
  server_.UseTokens(options_,
                    "alice wonderland max-inflight-bytes=64\nbob builder\n");
  server_.Start(options_);
  HttpClient client(Port());
  const HttpReply refused = client.Call(As("wonderland", SmallCall()));
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("max-inflight-bytes=64"));
  EXPECT_EQ(client.Call(As("builder", SmallCall())).status, 200);
}

// Two tenants, two tables: not even that it is there is told.
TEST_F(HttpSecurityTest, ASessionIsThereForNobodyElse) {
  server_.UseTokens(options_, kTwoTokens);
  server_.Start(options_);
  HttpClient client(Port());
  const HttpCall open = JsonCall("/v1/sessions", R"({"qHeads":1,"qDim":4})");
  EXPECT_EQ(client.Call(open).status, 401);
  const HttpReply opened = client.Call(As("builder", open));
  ASSERT_EQ(opened.status, 200) << opened.body;
  const std::string id = nlohmann::json::parse(opened.body)["sessionId"];
  const HttpCall get = {.target = "/v1/sessions/" + id};
  EXPECT_EQ(client.Call(get).status, 401);
  EXPECT_EQ(client.Call(As("builder", get)).status, 200);
  const HttpReply others = client.Call(As("wonderland", get));
  EXPECT_EQ(others.status, 404);
  EXPECT_THAT(others.body, HasSubstr("SESSION_NOT_HERE"));
  const HttpCall close = {.method = "DELETE", .target = get.target};
  EXPECT_THAT(client.Call(As("wonderland", close)).body,
              Not(HasSubstr("true")));
  EXPECT_THAT(client.Call(As("builder", close)).body, HasSubstr("true"));
  EXPECT_EQ(client.Call(As("builder", get)).status, 404);
}

TEST_F(HttpSecurityTest, WithoutACertificateOnlyTheProbesAnswer) {
  server_.UseTls(options_, /*mutual=*/true);
  server_.Start(options_);
  HttpsClient client(Port(), Trusting());
  EXPECT_EQ(client.Call({.target = "/healthz"}).status, 200);
  EXPECT_EQ(client.Call({.target = "/readyz"}).status, 200);
  for (const HttpCall& call :
       {SmallCall(), HttpCall{}, HttpCall{.target = "/explorer/main.js"},
        HttpCall{.target = "/v1/server_info"},
        HttpCall{.target = "/explorer/story"}, StoryOf("Once"),
        HttpCall{.target = "/none"}}) {
    const HttpReply reply = client.Call(call);
    EXPECT_EQ(reply.status, 401) << call.target;
    EXPECT_THAT(reply.body, HasSubstr("certificate"));
  }
}

TEST_F(HttpSecurityTest, ACertificateThatDoesNotHoldGetsNoAnswer) {
  server_.UseTls(options_, /*mutual=*/true);
  server_.Start(options_);
  const TestAuthority stranger("another CA");
  TestCaller forged = Trusting();
  forged.identity = stranger.Issue({.common_name = "client"});
  EXPECT_EQ(HttpsClient(Port(), forged).Call({.target = "/healthz"}).status, 0);
  EXPECT_EQ(HttpsClient(Port(), Showing({.common_name = "old", .days = -1}))
                .Call({.target = "/healthz"})
                .status,
            0);
}

// As they are seen through gRPC; a name may be of any bytes.
TEST_F(HttpSecurityTest, ACertificatesNameIsTheTenantAsWithGrpc) {
  server_.UseTls(options_, /*mutual=*/true);
  server_.Start(options_);
  size_t seen = 0;
  for (const auto& [subject, tenant] :
       {std::pair(TestSubject{"by-name", ""}, "by-name"),
        std::pair(TestSubject{"other", "DNS:by-dns"}, "by-dns"),
        std::pair(TestSubject{"other", "DNS:other,URI:spiffe://by/uri"},
                  "spiffe://by/uri"),
        std::pair(TestSubject{"Jos\xC3\xA9 B", ""}, "Jos%C3%A9%20B")}) {
    const TestCaller caller = Showing(subject);
    const std::string logged = absl::StrCat("tenant=\"", tenant, "\"");
    EXPECT_EQ(HttpsClient(Port(), caller).Call(SmallCall()).status, 200);
    seen = server_.WaitForLog(logged, seen);
    EXPECT_TRUE(server_.Attend(caller).ok());
    seen = server_.WaitForLog(logged, seen);
    EXPECT_EQ(HttpsClient(Port(), caller).Call({}).status, 200);
  }
}

// What the HTTP port tells the services within the process, nobody else can.
TEST_F(HttpSecurityTest, NobodyTakesAnothersNameByMetadata) {
  const char* const kNames[] = {"x-attn-certificate-name-bin",
                                "x-attn-certificate-name"};
  options_.grpc_addresses.push_back("unix:" + server_.folder().File("socket"));
  server_.UseTls(options_, /*mutual=*/true);
  server_.Start(options_);
  const TestCaller caller = Showing({.common_name = "honest"});
  HttpCall call = SmallCall();
  for (const char* name : kNames) {
    call.headers.push_back(absl::StrCat(name, ": boss"));
  }
  EXPECT_EQ(HttpsClient(Port(), caller).Call(call).status, 200);
  size_t seen = server_.WaitForLog("tenant=\"honest\"");
  for (const size_t address : {0U, 1U}) {
    const auto stub = wire::AttentionService::NewStub(
        server_.Connect(address == 0 ? caller : TestCaller{}, address));
    grpc::ClientContext context;
    for (const char* name : kNames) context.AddMetadata(name, "boss");
    wire::AttendResponse response;
    const grpc::Status status =
        stub->Attend(&context, RandomRequest({}, 1), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    seen = server_.WaitForLog(address == 0 ? "tenant=\"honest\"" : "OK", seen);
  }
  EXPECT_THAT(server_.Log(), Not(HasSubstr("boss")));
}

}  // namespace
}  // namespace attn
