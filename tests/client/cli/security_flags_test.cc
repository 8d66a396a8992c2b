// TLS and tokens, as a user of the program gives them.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"
#include "tests/server/security/test_certificates.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SecurityFlagsTest : public ::testing::Test {
 protected:
  SecurityFlagsTest()
      : authority_("test CA"),
        log_(LogFormat::kText, [](const std::string&) {}) {
    QuietGrpc();
    const TestIdentity identity = authority_.IssueServer("attn");
    const TestIdentity client = authority_.Issue({.common_name = "client"});
    ServerOptions options;
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 1;
    options.tls_cert = folder_.Write("cert.pem", identity.chain);
    options.tls_key = folder_.Write("key.pem", identity.key);
    options.tls_client_ca = folder_.Write("ca.pem", authority_.pem());
    options.auth_token_file = folder_.Write("tokens", "alice wonderland\n");
    folder_.Write("client.pem", client.chain);
    folder_.Write("client.key", client.key);
    folder_.Write("token", "wonderland\n");
    auto server = Server::Start(options, log_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~SecurityFlagsTest() override { server_->Hurry(); }

  const std::string& address() const { return server_->grpc_addresses()[0]; }
  std::vector<std::string> Tls() const {
    return {"--tls-ca",   folder_.File("ca.pem"),
            "--tls-cert", folder_.File("client.pem"),
            "--tls-key",  folder_.File("client.key")};
  }
  ProgramResult Attn(std::vector<std::string> command,
                     const std::vector<std::string>& flags) const {
    command.insert(command.begin(), {ATTN_PROGRAM, "--address", address()});
    command.insert(command.end(), flags.begin(), flags.end());
    return RunProgram(command);
  }

  const ScratchFolder folder_;
  const TestAuthority authority_;
  const LineLog log_;
  std::unique_ptr<Server> server_;
};

TEST_F(SecurityFlagsTest, EveryKindOfCommandTakesThem) {
  std::vector<std::string> flags = Tls();
  flags.insert(flags.end(), {"--token-file", folder_.File("token")});
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{
           {"health"},
           {"info"},
           {"layer", "list"},
           {"session", "list"},
           {"plan", "--shape", "1,2,2,4,4,8"},
           {"load", "--closed", "1", "--duration", "50ms", "--warmup", "0",
            "--verify-every", "0"}}) {
    const ProgramResult result = Attn(command, flags);
    EXPECT_EQ(result.exit_code, 0) << command[0] << ": " << result.err;
  }
}

TEST_F(SecurityFlagsTest, TheEnvironmentGivesThemToo) {
  const ProgramResult result = RunProgram(
      {ATTN_PROGRAM, "info"},
      {"ATTN_ADDRESS=" + address(), "ATTN_TLS_CA=" + folder_.File("ca.pem"),
       "ATTN_CLIENT_TLS_CERT=" + folder_.File("client.pem"),
       "ATTN_CLIENT_TLS_KEY=" + folder_.File("client.key"),
       "ATTN_TOKEN_FILE=" + folder_.File("token")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(SecurityFlagsTest, WithoutATokenTheServerSaysWhatItWants) {
  const ProgramResult result = Attn({"info"}, Tls());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("UNAUTHENTICATED"));
  // Probes need none.
  EXPECT_EQ(Attn({"health"}, Tls()).exit_code, 0);
}

TEST_F(SecurityFlagsTest, AWrongTokenIsNotPrinted) {
  std::vector<std::string> flags = Tls();
  flags.insert(flags.end(),
               {"--token-file", folder_.Write("wrong", "looking-glass")});
  const ProgramResult result = Attn({"info"}, flags);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out + result.err, Not(HasSubstr("looking-glass")));
}

TEST_F(SecurityFlagsTest, AFileThatCannotBeReadIsAUsageError) {
  const ProgramResult result =
      Attn({"info"}, {"--token-file", folder_.File("none")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--token-file"));
}

TEST_F(SecurityFlagsTest, ATokenDoesNotCrossANetworkInPlainText) {
  const ProgramResult result =
      RunProgram({ATTN_PROGRAM, "--address", "192.0.2.1:8001", "--token-file",
                  folder_.File("token"), "info"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("plain text"));
}

}  // namespace
}  // namespace attn
