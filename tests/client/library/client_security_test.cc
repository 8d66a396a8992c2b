#include "client/library/client_security.h"

#include <memory>
#include <string>

#include "client/library/attention_client.h"
#include "client/library/call_status.h"
#include "client/library/layer_client.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"
#include "tests/client/testing/scratch_folder.h"
#include "tests/server/security/test_certificates.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHere[] = "127.0.0.1:8001";
constexpr char kElsewhere[] = "attn.example:8001";

TEST(ClientSecurity, ByDefaultNothingIsTrustedAndNothingShown) {
  const auto opened = OpenSecurity({}, kElsewhere);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->authorization, "");
}

TEST(ClientSecurity, ATokenIsShownToThisMachine) {
  for (const char* address :
       {kHere, "127.1.2.3:1", "[::1]:1", "localhost:1", "unix:/run/a.sock"}) {
    const auto opened = OpenSecurity({.token = "t0ken"}, address);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->authorization, "Bearer t0ken");
    EXPECT_TRUE(opened->plain_token);
  }
}

TEST(ClientSecurity, ATokenDoesNotCrossANetworkInPlainText) {
  for (const char* address : {kElsewhere, "10.0.0.1:1", "0.0.0.0:1", "[::2]:1",
                              "localhost.example:1", "127.0.0.1.example:1"}) {
    const absl::Status status =
        OpenSecurity({.token = "t0ken"}, address).status();
    EXPECT_EQ(FieldOf(status), "tls_ca") << address;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("t0ken")));
    EXPECT_TRUE(
        OpenSecurity({.token = "t0ken", .allow_plaintext_token = true}, address)
            .ok());
  }
  EXPECT_TRUE(
      OpenSecurity({.tls_ca = "system", .token = "t0ken"}, kElsewhere).ok());
}

TEST(ClientSecurity, ATokenFileHoldsOneToken) {
  const ScratchFolder folder;
  const auto opened =
      OpenSecurity({.token_file = folder.Write("token", "  t0ken\r\n")}, kHere);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->authorization, "Bearer t0ken");
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("two tokens"),
        std::string("t0\0ken", 6), std::string("t0ken\nmore"),
        std::string("t\xc3\xb6ken")}) {
    const absl::Status status =
        OpenSecurity({.token_file = folder.Write("bad", text)}, kHere).status();
    EXPECT_EQ(FieldOf(status), "token_file") << text;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("t0")));
  }
}

TEST(ClientSecurity, WhatCannotBeMeantIsNamedByItsField) {
  const ScratchFolder folder;
  const std::string garbage = folder.Write("garbage", "not PEM");
  struct Bad {
    ClientSecurity security;
    const char* field;
  };
  for (const Bad& bad : {
           Bad{{.tls_ca = folder.File("none")}, "tls_ca"},
           Bad{{.tls_ca = garbage}, "tls_ca"},
           Bad{{.tls_ca = "system", .tls_cert = "c"}, "tls_key"},
           Bad{{.tls_ca = "system", .tls_key = "k"}, "tls_cert"},
           Bad{{.tls_ca = "system", .tls_cert = garbage, .tls_key = garbage},
               "tls_cert"},
           Bad{{.tls_cert = "c", .tls_key = "k"}, "tls_ca"},
           Bad{{.tls_server_name = "attn"}, "tls_ca"},
           Bad{{.token = "a", .token_file = garbage}, "token_file"},
           Bad{{.token_file = folder.File("none")}, "token_file"},
           Bad{{.token = "two words"}, "token"},
       }) {
    const absl::Status status = OpenSecurity(bad.security, kHere).status();
    EXPECT_EQ(FieldOf(status), bad.field) << status;
  }
}

// A server with TLS and a token, and what its clients need.
class SecureClientTest : public ::testing::Test {
 protected:
  SecureClientTest()
      : authority_("test CA"),
        log_(LogFormat::kText, [](const std::string&) {}) {
    QuietGrpc();
    const TestIdentity identity = authority_.Issue(
        {.common_name = "attn", .alternative_names = "DNS:attn.example"});
    ServerOptions options;
    options.grpc_addresses = {"127.0.0.1:0", "unix:" + folder_.File("socket")};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 1;
    options.tls_cert = folder_.Write("cert.pem", identity.chain);
    options.tls_key = folder_.Write("key.pem", identity.key);
    options.tls_client_ca = folder_.Write("ca.pem", authority_.pem());
    options.auth_token_file = folder_.Write("tokens", "alice wonderland\n");
    auto server = Server::Start(options, log_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const TestIdentity client = authority_.Issue({.common_name = "client"});
    security_ = {.tls_ca = options.tls_client_ca,
                 .tls_cert = folder_.Write("client.pem", client.chain),
                 .tls_key = folder_.Write("client.key", client.key),
                 .tls_server_name = "attn.example",
                 .token = "wonderland"};
  }
  ~SecureClientTest() override { server_->Hurry(); }

  absl::Status Info(const ClientSecurity& security, size_t address = 0) const {
    auto client =
        AttentionClient::Connect({.address = server_->grpc_addresses()[address],
                                  .deadline = absl::Seconds(60),
                                  .security = security});
    if (!client.ok()) return client.status();
    return client->GetServerInfo().status();
  }

  const ScratchFolder folder_;
  const TestAuthority authority_;
  const LineLog log_;
  std::unique_ptr<Server> server_;
  ClientSecurity security_;
};

TEST_F(SecureClientTest, IsServedWithEverythingThatIsAskedFor) {
  const absl::Status status = Info(security_);
  EXPECT_TRUE(status.ok()) << status;
  const auto layers = LayerClient::Connect(
      {.address = server_->grpc_addresses()[0], .security = security_});
  ASSERT_TRUE(layers.ok()) << layers.status();
  EXPECT_TRUE(layers->List().ok());
}

TEST_F(SecureClientTest, WithoutATokenOrWithAWrongOneIsUnauthenticated) {
  for (const char* token : {"", "builder"}) {
    security_.token = token;
    EXPECT_EQ(Info(security_).code(), absl::StatusCode::kUnauthenticated);
  }
}

TEST_F(SecureClientTest, AUnixSocketNeedsTheTokenAlone) {
  EXPECT_TRUE(Info({.token = "wonderland"}, 1).ok());
  // An environment that names TLS for all addresses does no harm.
  EXPECT_TRUE(Info(security_, 1).ok());
  EXPECT_EQ(Info({}, 1).code(), absl::StatusCode::kUnauthenticated);
}

// It is there: to say that nobody answers would send people the wrong way.
TEST_F(SecureClientTest, ADisagreementAboutTlsIsToldAsOne) {
  const TestAuthority stranger("another CA");
  ClientSecurity other_ca = security_;
  other_ca.tls_ca = folder_.Write("other.pem", stranger.pem());
  ClientSecurity other_name = security_;
  other_name.tls_server_name = "other.example";
  for (const ClientSecurity& security : {other_ca, other_name}) {
    const absl::Status status = Info(security);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_FALSE(IsUnreachable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("agree on TLS"));
  }
  ClientSecurity no_certificate = security_;
  no_certificate.tls_cert = "";
  no_certificate.tls_key = "";
  for (const ClientSecurity& security :
       {no_certificate, ClientSecurity{.token = "wonderland"}}) {
    const absl::Status status = Info(security);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("TLS")) << status;
  }
}

}  // namespace
}  // namespace attn
