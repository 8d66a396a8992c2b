// The program itself: its flags, its environment, its exit.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "attention/v1/attention.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/integration/server/raw_rpc.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

using Environment = std::map<std::string, std::string>;

// attn-server as a child whose output and errors are read through one pipe.
class Program {
 public:
  explicit Program(std::vector<std::string> flags,
                   const Environment& environment = {}) {
    std::array<int, 2> pipe_ends{};
    EXPECT_EQ(pipe(pipe_ends.data()), 0);
    pid_ = fork();
    if (pid_ == 0) Become(std::move(flags), environment, pipe_ends);
    close(pipe_ends[1]);
    output_ = fdopen(pipe_ends[0], "r");
  }
  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
    fclose(output_);
  }

  // Reads lines until one holds `text`; everything that was read.
  std::string ReadUntil(const std::string& text) {
    std::string all;
    std::array<char, 4096> line{};
    while (all.find(text) == std::string::npos &&
           fgets(line.data(), line.size(), output_) != nullptr) {
      all += line.data();
    }
    return all;
  }
  std::string ReadAll() { return ReadUntil("\x01"); }
  void Signal(int number) const { kill(pid_, number); }
  // The exit code, or -1 for a death by signal.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Gives it two minutes to end by itself.
  bool Ends() const {
    for (int looks = 0; looks < 12000; ++looks) {
      siginfo_t info = {};
      if (waitid(P_PID, static_cast<id_t>(pid_), &info,
                 WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid == pid_) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  [[noreturn]] static void Become(std::vector<std::string> flags,
                                  const Environment& environment,
                                  const std::array<int, 2>& pipe_ends) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[0]);
    for (const auto& [name, value] : environment) {
      // The child of a fork has one thread.
      // NOLINTNEXTLINE(concurrency-mt-unsafe)
      setenv(name.c_str(), value.c_str(), 1);
    }
    std::string name = ATTN_SERVER;
    std::vector<char*> arguments = {name.data()};
    for (std::string& flag : flags) arguments.push_back(flag.data());
    arguments.push_back(nullptr);
    execv(ATTN_SERVER, arguments.data());
    _exit(127);
  }

  pid_t pid_ = 0;
  FILE* output_ = nullptr;
};

TEST(Main, PrintConfigTellsEachValueAndItsSource) {
  Program program({"--print-config", "--max-queue-size=9", "--nolog-requests"},
                  {{"ATTN_LOG_FORMAT", "json"}, {"ATTN_MAX_QUEUE_SIZE", "8"}});
  const std::string config = program.ReadAll();
  EXPECT_THAT(config, HasSubstr("grpc-address=127.0.0.1:8001 (default)\n"));
  EXPECT_THAT(config, HasSubstr("log-format=json (environment)\n"));
  EXPECT_THAT(config, HasSubstr("max-queue-size=9 (flag)\n"));
  EXPECT_THAT(config, HasSubstr("log-requests=false (flag)\n"));
  EXPECT_EQ(program.Wait(), 0);
}

TEST(Main, AnInconsistentSetIsRefusedInOneLine) {
  Program program({"--max-inflight-bytes=10"});
  const std::string said = program.ReadAll();
  EXPECT_THAT(said, HasSubstr("attn-server: --max-inflight-bytes=10"));
  EXPECT_EQ(said.find('\n'), said.size() - 1);
  EXPECT_EQ(program.Wait(), 1);
}

TEST(Main, AReflectionModeThatThereIsNotIsToldTheOnesThereAre) {
  Program program({"--reflection=maybe"});
  EXPECT_EQ(program.ReadAll(),
            "attn-server: --reflection=maybe: must be auto, on or off\n");
  EXPECT_EQ(program.Wait(), 1);
}

TEST(Main, HalfAPairOfTlsFilesIsToldByTheOtherFlag) {
  Program program({"--tls-cert=/nowhere/cert.pem"});
  EXPECT_EQ(program.ReadAll(),
            "attn-server: --tls-key: must be given with "
            "--tls-cert=/nowhere/cert.pem\n");
  EXPECT_EQ(program.Wait(), 1);
}

TEST(Main, NeitherTheConfigNorAnErrorShowsWhatIsInATokenFile) {
  const std::string path = ::testing::TempDir() + "/main_test_tokens";
  std::ofstream(path) << "alice wonder land\n";
  Program config({"--auth-token-file=" + path, "--print-config"});
  const std::string printed = config.ReadAll();
  EXPECT_THAT(printed, HasSubstr("auth-token-file=" + path + " (flag)\n"));
  EXPECT_EQ(printed.find("wonder"), std::string::npos);
  Program refused({"--auth-token-file=" + path});
  const std::string said = refused.ReadAll();
  EXPECT_THAT(said, HasSubstr("--auth-token-file=" + path + ": line 1: "));
  EXPECT_EQ(said.find("wonder"), std::string::npos);
  EXPECT_EQ(said.find("land"), std::string::npos);
  EXPECT_EQ(refused.Wait(), 1);
}

TEST(Main, ACapOnTheInstructionSetIsInForceWhenTheServerServes) {
  Program program(
      {"--grpc-address=127.0.0.1:0", "--metrics-address=", "--http-address="},
      {{"ATTN_MAX_ISA", "sse4"}});
  EXPECT_THAT(program.ReadUntil("SERVING on"), HasSubstr(": SSE4,"));
}

TEST(Main, AnUnknownInstructionSetIsRefusedWithTheKnownOnes) {
  Program program({"--max-isa=avx9"});
  EXPECT_EQ(program.ReadAll(),
            "attn-server: --max-isa=avx9: must be native, sse4, avx2 or "
            "avx512\n");
  EXPECT_EQ(program.Wait(), 1);
}

TEST(Main, ABadVariableIsRefusedByItsName) {
  Program program({}, {{"ATTN_DRAIN_DELAY", "soon"}});
  EXPECT_THAT(program.ReadAll(), HasSubstr("ATTN_DRAIN_DELAY=soon"));
  EXPECT_EQ(program.Wait(), 1);
}

TEST(Main, AnArgumentThatIsNoFlagIsRefused) {
  Program program({"serve"});
  EXPECT_THAT(program.ReadAll(), HasSubstr("\"serve\""));
  EXPECT_EQ(program.Wait(), 1);
}

TEST(Main, ASignalStopsAServerAndItExitsWithZero) {
  Program program({"--grpc-address=127.0.0.1:0", "--metrics-address=",
                   "--http-address=", "--drain-delay=0s"});
  EXPECT_THAT(program.ReadUntil("SERVING on"), HasSubstr("127.0.0.1:"));
  program.Signal(SIGTERM);
  EXPECT_THAT(program.ReadAll(), HasSubstr("stopped"));
  EXPECT_EQ(program.Wait(), 0);
}

// Without its handler in place by then, the signal would kill it.
TEST(Main, ASignalDuringTheWarmUpStopsItInOrder) {
  Program program({"--grpc-address=127.0.0.1:0", "--metrics-address=",
                   "--http-address=", "--drain-delay=0s"});
  EXPECT_THAT(program.ReadUntil("listening on"), HasSubstr("127.0.0.1:"));
  program.Signal(SIGTERM);
  EXPECT_THAT(program.ReadAll(), HasSubstr("stopped"));
  EXPECT_EQ(program.Wait(), 0);
}

TEST(Main, ASecondSignalCutsTheDrainShort) {
  Program program({"--grpc-address=127.0.0.1:0", "--metrics-address=",
                   "--http-address=", "--drain-delay=24h"});
  program.ReadUntil("SERVING on");
  program.Signal(SIGTERM);
  program.ReadUntil("NOT_SERVING");
  program.Signal(SIGINT);
  EXPECT_EQ(program.Wait(), 0);
}

// Of lines that end with an address.
std::string LastWord(const std::string& lines) {
  return lines.substr(lines.rfind(' ') + 1,
                      lines.size() - lines.rfind(' ') - 2);
}

TEST(Main, ATakenPortIsToldInOneLine) {
  Program first(
      {"--grpc-address=127.0.0.1:0", "--metrics-address=", "--http-address="});
  const std::string said = first.ReadUntil("SERVING on");
  const std::string address = LastWord(said);
  Program second(
      {"--grpc-address=" + address, "--metrics-address=", "--http-address="});
  const std::string refusal = second.ReadAll();
  EXPECT_EQ(refusal, "attn-server: --grpc-address=" + address +
                         ": cannot listen: Address already in use\n");
  EXPECT_EQ(second.Wait(), 1);
}

// Their lines are more than a pipe holds.
TEST(Main, ALogThatNobodyReadsStopsNeitherCallsNorTheEnd) {
  Program program({"--grpc-address=127.0.0.1:0", "--metrics-address=",
                   "--http-address=", "--drain-delay=0s"});
  const auto channel =
      grpc::CreateChannel(LastWord(program.ReadUntil("SERVING on")),
                          grpc::InsecureChannelCredentials());
  const auto stub = attention::v1::AttentionService::NewStub(channel);
  for (int i = 0; i < 1000; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::minutes(1));
    attention::v1::GetServerInfoResponse response;
    ASSERT_TRUE(stub->GetServerInfo(&context, {}, &response).ok()) << i;
  }
  EXPECT_EQ(HealthOf(channel, ""), "SERVING");
  program.Signal(SIGTERM);
  ASSERT_TRUE(program.Ends());
  EXPECT_EQ(program.Wait(), 0);
}

}  // namespace
}  // namespace attn
