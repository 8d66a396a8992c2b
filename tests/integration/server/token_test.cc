// Bearer tokens: who comes in, and what is said and kept of those who do not.
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "attention/v1/layer.grpc.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "inference/open_inference.grpc.pb.h"
#include "tests/integration/server/raw_rpc.h"
#include "tests/integration/server/secure_server.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kTokens[] =
    "# the two of them\n"
    "alice wonderland-7f3a\n"
    "bob builder-19c2\n";

class TokenTest : public ::testing::Test {
 protected:
  TokenTest() : options_(SecureServer::Options()) {
    server_.UseTokens(options_, kTokens);
  }

  grpc::Status AttendWith(const std::string& token) const {
    return server_.Attend({.authorization = Bearer(token)});
  }

  SecureServer server_;
  ServerOptions options_;
};

TEST_F(TokenTest, OnlyAKnownTokenComesIn) {
  options_.metrics_address = "127.0.0.1:0";
  server_.Start(options_);
  EXPECT_TRUE(AttendWith("wonderland-7f3a").ok());
  EXPECT_TRUE(AttendWith("builder-19c2").ok());
  const grpc::Status missing = server_.Attend({});
  EXPECT_EQ(missing.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(missing.error_message(),
              HasSubstr("\"authorization: Bearer <token>\""));
  const grpc::Status wrong = AttendWith("wonderland-7f3b");
  EXPECT_EQ(wrong.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(wrong.error_message(), AllOf(HasSubstr("not a valid one"),
                                           Not(HasSubstr("wonderland"))));
  EXPECT_EQ(server_.RejectionsReaching("unauthenticated", 2), 2);
}

// A proxy's header beside the caller's own must not decide.
TEST_F(TokenTest, TwoTokensInOneCallAreRefused) {
  server_.Start(options_);
  const auto channel = server_.Connect({});
  grpc::ClientContext context;
  context.AddMetadata("authorization", Bearer("wonderland-7f3a"));
  context.AddMetadata("authorization", Bearer("builder-19c2"));
  wire::AttendResponse response;
  const grpc::Status status = wire::AttentionService::NewStub(channel)->Attend(
      &context, RandomRequest({}, 1), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

// Every method of every service that the schema names, whoever adds one.
TEST_F(TokenTest, EveryMethodOfEveryServiceIsGuarded) {
  server_.Start(options_);
  const auto channel = server_.Connect({});
  std::set<std::string> guarded;
  // As the health service.
  const std::set<std::string> probes = {"ServerLive", "ServerReady",
                                        "ModelReady"};
  for (const google::protobuf::FileDescriptor* file :
       {wire::AttendRequest::descriptor()->file(),
        wire::PutLayerRequest::descriptor()->file(),
        inference::ModelInferRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor& service = *file->service(i);
      for (int j = 0; j < service.method_count(); ++j) {
        const std::string& method = service.method(j)->name();
        std::string response;
        const grpc::Status status = RawExchange(
            channel, "/" + service.full_name() + "/" + method, "", &response);
        if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) continue;
        if (probes.contains(method)) {
          EXPECT_TRUE(status.ok()) << method << ": " << status.error_message();
          continue;
        }
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
            << method << ": " << status.error_message();
        guarded.insert(method);
      }
    }
  }
  for (const char* method :
       {"Attend", "AttendStream", "Inspect", "AttendBackward", "Plan",
        "GetServerInfo", "PutLayer", "GetLayer", "ListLayers", "DeleteLayer",
        "ServerMetadata", "ModelMetadata", "ModelInfer", "RepositoryIndex"}) {
    EXPECT_TRUE(guarded.contains(method)) << method;
  }
}

TEST_F(TokenTest, ProbesNeedNoToken) {
  server_.Start(options_);
  EXPECT_EQ(HealthOf(server_.Connect({}), ""), "SERVING");
}

// gRPC would parse for them what no limit of ours bounds.
TEST_F(TokenTest, StrangersAreNotServedReflection) {
  server_.Start(options_);
  std::string response;
  EXPECT_EQ(ListServices(server_.Connect({}), &response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(TokenTest, ReflectionThatIsTurnedOnNeedsNoToken) {
  options_.reflection = ReflectionMode::kOn;
  server_.Start(options_);
  std::string response;
  EXPECT_TRUE(ListServices(server_.Connect({}), &response).ok());
  EXPECT_THAT(response, HasSubstr("attention.v1.AttentionService"));
}

TEST_F(TokenTest, ANewFileIsTakenAndABadOneIsNot) {
  server_.Start(options_);
  server_.WriteFile("tokens", "alice looking-glass\n");
  size_t seen = server_.WaitForLog("tokens, read anew: 1 of 1 tenants");
  EXPECT_TRUE(AttendWith("looking-glass").ok());
  EXPECT_FALSE(AttendWith("wonderland-7f3a").ok());
  EXPECT_FALSE(AttendWith("builder-19c2").ok());
  server_.WriteFile("tokens", "alice looking-glass\nmallory\n");
  seen = server_.WaitForLog("line 2: a tenant without a token", seen);
  EXPECT_TRUE(AttendWith("looking-glass").ok());
  server_.WriteFile("tokens", "");
  seen = server_.WaitForLog("it names no tenant", seen);
  EXPECT_TRUE(AttendWith("looking-glass").ok());
  std::remove(options_.auth_token_file.c_str());
  server_.WaitForLog("No such file", seen);
  EXPECT_TRUE(AttendWith("looking-glass").ok());
}

// A stream has no end of its own: its caller is looked at for each call.
TEST_F(TokenTest, ATokenThatIsTakenOutOpensNoFurtherCallOfAStream) {
  server_.Start(options_);
  const auto channel = server_.Connect({});
  grpc::ClientContext context;
  context.AddMetadata("authorization", Bearer("wonderland-7f3a"));
  const auto stream =
      wire::AttentionService::NewStub(channel)->AttendStream(&context);
  wire::AttendStreamRequest message;
  wire::AttendStreamResponse answer;
  message.set_call(1);
  *message.mutable_request() = RandomRequest({}, 1);
  ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(answer.has_response());
  server_.WriteFile("tokens", "bob builder-19c2\n");
  server_.WaitForLog("tokens, read anew");
  message.set_call(2);
  ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.status().code(), grpc::StatusCode::UNAUTHENTICATED);
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(TokenTest, AFileThatCannotBeUsedIsNamedByItsFlag) {
  server_.UseTokens(options_, "alice");
  const absl::Status status = server_.TryStart(options_);
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith("--auth-token-file=" + options_.auth_token_file),
                    HasSubstr("line 1")));
}

TEST_F(TokenTest, TheLogNamesTenantsAndNeverATokenOrAKey) {
  server_.UseTls(options_);
  options_.log_format = LogFormat::kText;
  server_.Start(options_);
  const std::string ca = server_.authority().pem();
  const std::vector<std::string> secrets = {
      "wonderland", "builder", "rabbit-hole", "half-a-secret", "other-half"};
  EXPECT_TRUE(
      server_.Attend({.ca = ca, .authorization = Bearer("wonderland-7f3a")})
          .ok());
  EXPECT_FALSE(
      server_.Attend({.ca = ca, .authorization = Bearer("rabbit-hole")}).ok());
  EXPECT_FALSE(server_.Attend({.ca = ca, .authorization = "rabbit-hole"}).ok());
  server_.WriteFile("tokens", "alice half-a-secret other-half\n");
  size_t seen = server_.WaitForLog("what was read before stays in force");
  server_.WriteFile("cert.pem", server_.authority().IssueServer("b").chain);
  server_.WaitForLog("what was read before stays in force", seen);
  server_.WaitForLog("tenant=\"alice\"");
  const std::string log = server_.Log();
  for (const std::string& secret : secrets) {
    EXPECT_THAT(log, Not(HasSubstr(secret)));
  }
  std::ifstream file(options_.tls_key);
  const std::string key{std::istreambuf_iterator<char>(file), {}};
  constexpr size_t kLine = 32;
  const size_t body = key.find('\n') + 1;
  EXPECT_THAT(log, Not(HasSubstr(key.substr(body, kLine))));
}

TEST_F(TokenTest, TokensThatCrossANetworkInPlainTextAreWarnedOf) {
  options_.grpc_addresses = {"0.0.0.0:0"};
  server_.Start(options_);
  EXPECT_THAT(server_.Log(), HasSubstr("warning --grpc-address=0.0.0.0:0: "
                                       "tokens cross the network in plain"));
}

TEST_F(TokenTest, TokensThatStayOnTheMachineAreNotWarnedOf) {
  options_.grpc_addresses = {"127.0.0.1:0",
                             "unix:" + server_.folder().File("socket")};
  server_.Start(options_);
  EXPECT_THAT(server_.Log(), Not(HasSubstr("plain text")));
  EXPECT_TRUE(
      server_.Attend({.authorization = Bearer("builder-19c2")}, 1).ok());
  EXPECT_EQ(server_.Attend({}, 1).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(TokenTest, AListedCertificateNeedsNoToken) {
  server_.UseTls(options_, /*mutual=*/true);
  server_.UseTokens(options_, "spiffe://a/listed -\nalice wonderland-7f3a\n");
  server_.Start(options_);
  TestCaller listed = {.ca = server_.authority().pem()};
  listed.identity = server_.authority().Issue(
      {.common_name = "x", .alternative_names = "URI:spiffe://a/listed"});
  EXPECT_TRUE(server_.Attend(listed).ok());
  TestCaller other = listed;
  other.identity = server_.authority().Issue({.common_name = "alice"});
  EXPECT_EQ(server_.Attend(other).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  other.authorization = Bearer("wonderland-7f3a");
  EXPECT_TRUE(server_.Attend(other).ok());
}

}  // namespace
}  // namespace attn
