// Servers that are not there, or not what was meant: one line and the exit code
// of the help.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"
#include "tests/client/cli/odd_server.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"
#include "tests/server/security/test_certificates.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ProgramResult Health(const std::string& address,
                     const std::vector<std::string>& flags = {}) {
  std::vector<std::string> argv = {ATTN_PROGRAM, "--address", address};
  argv.insert(argv.end(), flags.begin(), flags.end());
  argv.emplace_back("health");
  ProgramResult result = RunProgram(argv);
  EXPECT_TRUE(absl::StartsWith(result.err, "attn: ")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1)
      << result.err;
  return result;
}

TEST(BadServerTest, NobodyAtTheAddressExitsWithFour) {
  for (const char* address :
       {"127.0.0.1:1", "no-such-host.invalid:8001", "unix:no/such.sock"}) {
    const ProgramResult result = Health(address);
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(address),
                                  HasSubstr("start attn-server there")));
  }
}

TEST(BadServerTest, AnHttpServerIsNoGrpcServer) {
  const OddServer http("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  const ProgramResult result = Health(http.address());
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr(http.address()), HasSubstr("something else")));
}

TEST(BadServerTest, AServerThatSaysNothingIsTimedOut) {
  const OddServer silent("");
  const ProgramResult result = Health(silent.address(), {"--timeout", "300ms"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("DEADLINE_EXCEEDED"), HasSubstr("--timeout")));
}

// A server in this process.
class OneSidedTlsTest : public ::testing::Test {
 protected:
  OneSidedTlsTest()
      : authority_("test CA"),
        log_(LogFormat::kText, [](const std::string&) {}) {
    QuietGrpc();
  }
  ~OneSidedTlsTest() override { server_->Hurry(); }

  const std::string& Start(ServerOptions options) {
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 1;
    auto server = Server::Start(options, log_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    return server_->grpc_addresses()[0];
  }

  const ScratchFolder folder_;
  const TestAuthority authority_;
  const LineLog log_;
  std::unique_ptr<Server> server_;
};

TEST_F(OneSidedTlsTest, TlsToAServerWithoutItIsOneLine) {
  const std::string address = Start({});
  const ProgramResult result =
      Health(address, {"--tls-ca", folder_.Write("ca.pem", authority_.pem())});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr(address), HasSubstr("--tls-ca")));
}

TEST_F(OneSidedTlsTest, PlainTextToAServerWithTlsIsOneLine) {
  const TestIdentity identity = authority_.IssueServer("attn");
  ServerOptions options;
  options.tls_cert = folder_.Write("cert.pem", identity.chain);
  options.tls_key = folder_.Write("key.pem", identity.key);
  const std::string address = Start(options);
  const ProgramResult result = Health(address);
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr(address), HasSubstr("TLS")));
}

TEST_F(OneSidedTlsTest, WhatTheServerRefusesIsToldWithTheFlagThatHelps) {
  const std::string address = Start({});
  TensorMap tensors;
  tensors.emplace("q", HostTensor(DType::kI64, {1, 1, 2, 2}));
  tensors.emplace("k", HostTensor(DType::kF32, {1, 1, 3, 2}));
  tensors.emplace("v", HostTensor(DType::kF32, {1, 1, 3, 2}));
  const std::string input = folder_.File("in.npz");
  ASSERT_TRUE(WriteTensors(input, tensors).ok());
  const std::vector<std::string> attend = {ATTN_PROGRAM, "--address", address,
                                           "attend",     "--input",   input};
  const ProgramResult integers = RunProgram(attend);
  EXPECT_EQ(integers.exit_code, 3);
  EXPECT_THAT(integers.err,
              AllOf(HasSubstr("q.dtype"), HasSubstr("--dtype f32")));
  std::vector<std::string> causal = attend;
  causal.insert(causal.end(), {"--dtype", "f32", "--causal"});
  const ProgramResult aligned = RunProgram(causal);
  EXPECT_EQ(aligned.exit_code, 3);
  EXPECT_THAT(aligned.err, HasSubstr("--causal=bottom_right"));
  causal.back() = "--causal=bottom_right";
  EXPECT_EQ(RunProgram(causal).exit_code, 0);
}

}  // namespace
}  // namespace attn
