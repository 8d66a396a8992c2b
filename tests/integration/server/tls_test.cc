// TLS and client certificates, and their change while calls run.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/raw_rpc.h"
#include "tests/integration/server/secure_server.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() : options_(SecureServer::Options()) {}

  std::string WhyNotStarted() {
    const absl::Status status = server_.TryStart(options_);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
    return std::string(status.message());
  }
  TestCaller Caller() const { return {.ca = server_.authority().pem()}; }
  TestCaller Caller(const TestSubject& subject) const {
    return {.ca = server_.authority().pem(),
            .identity = server_.authority().Issue(subject)};
  }

  SecureServer server_;
  ServerOptions options_;
};

TEST_F(TlsTest, ACallerWhoTrustsTheServersCaIsServed) {
  server_.UseTls(options_);
  server_.Start(options_);
  std::string peer;
  const auto channel = server_.Connect(Caller());
  const grpc::Status status = AttendOn(channel, "", &peer);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(peer, "first");
  EXPECT_EQ(HealthOf(channel, ""), "SERVING");
  EXPECT_THAT(server_.Log(), HasSubstr("TLS: CN = first, until 20"));
}

TEST_F(TlsTest, ACallerWithoutTlsOrWithAnotherCaIsNot) {
  server_.UseTls(options_);
  server_.Start(options_);
  const TestAuthority stranger("another CA");
  EXPECT_EQ(server_.Attend({}).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.Attend({.ca = stranger.pem()}).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(server_.Attend(Caller()).ok());
}

TEST_F(TlsTest, AHostNameListensOnEachOfItsAddresses) {
  options_.grpc_addresses = {"localhost:0", "127.0.0.1:0"};
  server_.UseTls(options_);
  server_.Start(options_);
  EXPECT_THAT(server_.address(0), StartsWith("localhost:"));
  for (const size_t i : {0U, 1U}) {
    const grpc::Status status = server_.Attend(Caller(), i);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}

TEST_F(TlsTest, AUnixSocketBesideItStaysPlain) {
  options_.grpc_addresses = {"127.0.0.1:0",
                             "unix:" + server_.folder().File("socket")};
  server_.UseTls(options_, /*mutual=*/true);
  server_.Start(options_);
  EXPECT_TRUE(server_.Attend({}, 1).ok());
  EXPECT_FALSE(server_.Attend({}, 0).ok());
}

TEST_F(TlsTest, FilesThatCannotBeUsedAreNamedByTheirFlag) {
  server_.UseTls(options_);
  const ServerOptions good = options_;
  options_.tls_key = server_.folder().File("none");
  EXPECT_THAT(WhyNotStarted(),
              AllOf(StartsWith("--tls-key=" + options_.tls_key),
                    HasSubstr("No such file")));
  options_ = good;
  server_.WriteFile("key.pem", server_.authority().IssueServer("b").key);
  EXPECT_THAT(WhyNotStarted(), HasSubstr("is not the key of --tls-cert="));
  options_.tls_client_ca = server_.WriteFile("ca.pem", "garbage");
  server_.UseTls(options_);
  EXPECT_THAT(WhyNotStarted(), StartsWith("--tls-client-ca="));
}

TEST_F(TlsTest, AClientMustShowACertificateThatTheCaSigned) {
  server_.UseTls(options_, /*mutual=*/true);
  server_.Start(options_);
  const TestAuthority stranger("another CA");
  TestCaller forged = Caller();
  forged.identity = stranger.Issue({.common_name = "client"});
  EXPECT_EQ(server_.Attend(Caller()).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.Attend(forged).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(
      server_.Attend(Caller({.common_name = "client", .days = -1})).ok());
  const grpc::Status status = server_.Attend(Caller({.common_name = "client"}));
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(TlsTest, ACertificatesNameIsTheTenantOfItsCalls) {
  server_.UseTls(options_, /*mutual=*/true);
  server_.Start(options_);
  for (const TestSubject& subject :
       {TestSubject{"by-name", ""}, TestSubject{"other", "DNS:by-dns"},
        TestSubject{"other", "DNS:other,URI:spiffe://by/uri"},
        TestSubject{"with space", ""}}) {
    EXPECT_TRUE(server_.Attend(Caller(subject)).ok());
  }
  for (const char* tenant :
       {"by-name", "by-dns", "spiffe://by/uri", "with%20space"}) {
    server_.WaitForLog(absl::StrCat("tenant=\"", tenant, "\""));
  }
}

// Callers that connect anew for each call, and one that keeps its connection.
class Load {
 public:
  static constexpr int kConnecting = 3;

  Load(const SecureServer& server, const TestCaller& caller)
      : server_(server), caller_(caller), kept_(server.Connect(caller)) {
    for (int i = 0; i < kConnecting; ++i) {
      threads_.emplace_back([this] {
        while (!ended_) Count(server_.Attend(caller_));
      });
    }
    threads_.emplace_back([this] {
      while (!ended_) Count(AttendOn(kept_, caller_.authorization));
    });
  }
  ~Load() { End(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  void End() {
    ended_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // Until every thread has likely made calls since now.
  void WaitForCalls() const {
    const int goal = calls_ + 20;
    while (calls_ < goal) std::this_thread::yield();
  }
  int calls() const { return calls_; }
  int failed() const { return failed_; }

 private:
  void Count(const grpc::Status& status) {
    ++calls_;
    if (status.ok()) return;
    ++failed_;
    ADD_FAILURE() << status.error_message();
  }

  const SecureServer& server_;
  const TestCaller caller_;
  const std::shared_ptr<grpc::Channel> kept_;
  std::atomic<bool> ended_ = false;
  std::atomic<int> calls_ = 0;
  std::atomic<int> failed_ = 0;
  std::vector<std::thread> threads_;
};

// The certificate that a new handshake is shown.
std::string ShownTo(const SecureServer& server, const TestCaller& caller) {
  std::string peer;
  AttendOn(server.Connect(caller), caller.authorization, &peer);
  return peer;
}

// Between the two renames of each rotation the files do not fit; it is made as
// long as it takes the server to notice.
TEST_F(TlsTest, CertificatesRotateUnderLoadWithoutAFailedCall) {
  server_.UseTls(options_);
  server_.Start(options_);
  Load load(server_, Caller());
  size_t seen = 0;
  for (int round = 0; round < 5; ++round) {
    const std::string name = absl::StrCat("rotated", round);
    const TestIdentity next = server_.authority().IssueServer(name);
    server_.WriteFile("cert.pem", next.chain);
    seen = server_.WaitForLog("what was read before stays in force", seen);
    load.WaitForCalls();
    EXPECT_NE(ShownTo(server_, Caller()), name);
    server_.WriteFile("key.pem", next.key);
    seen = server_.WaitForLog("TLS, read anew: CN = " + name, seen);
    EXPECT_EQ(ShownTo(server_, Caller()), name);
    load.WaitForCalls();
  }
  load.End();
  EXPECT_GT(load.calls(), 0);
  EXPECT_EQ(load.failed(), 0);
}

TEST_F(TlsTest, ACaThatIsTakenAwayIsNotTrustedByNewHandshakes) {
  server_.UseTls(options_, /*mutual=*/true);
  server_.Start(options_);
  const TestAuthority next("next CA");
  const TestCaller old_client = Caller({.common_name = "client"});
  TestCaller new_client = Caller();
  new_client.identity = next.Issue({.common_name = "client"});
  EXPECT_TRUE(server_.Attend(old_client).ok());
  EXPECT_FALSE(server_.Attend(new_client).ok());
  server_.WriteFile("ca.pem", server_.authority().pem() + next.pem());
  size_t seen = server_.WaitForLog("TLS, read anew");
  EXPECT_TRUE(server_.Attend(old_client).ok());
  EXPECT_TRUE(server_.Attend(new_client).ok());
  server_.WriteFile("ca.pem", next.pem());
  server_.WaitForLog("TLS, read anew", seen);
  EXPECT_FALSE(server_.Attend(old_client).ok());
  EXPECT_TRUE(server_.Attend(new_client).ok());
}

}  // namespace
}  // namespace attn
