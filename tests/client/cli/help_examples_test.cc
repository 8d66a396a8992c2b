// What --help says works: every example of every command, run as it stands in a
// folder that has the files which examples name.
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/app/server.h"
#include "tests/client/cli/help_text.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"
#include "tests/server/security/test_certificates.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr int64_t kLongTokens = 8192;

HostTensor Ramp(const Shape& shape) {
  HostTensor tensor(DType::kF32, shape);
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    tensor.Set(i, static_cast<double>(i % 17) / 17);
  }
  return tensor;
}

std::unique_ptr<Server> StartServer(ServerOptions options, const LineLog& log) {
  options.metrics_address = "";
  options.drain_delay = absl::ZeroDuration();
  options.compute_threads = 2;
  auto server = Server::Start(options, log);
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

class HelpExamplesTest : public ::testing::Test {
 protected:
  HelpExamplesTest()
      : authority_("test CA"),
        log_(LogFormat::kText, [](const std::string&) {}) {
    QuietGrpc();
    ServerOptions plain;
    plain.grpc_addresses = {"127.0.0.1:0", "unix:" + folder_.File("attn.sock")};
    server_ = StartServer(plain, log_);
    const TestIdentity identity = authority_.IssueServer("attn");
    ServerOptions secured;
    secured.grpc_addresses = {"127.0.0.1:0"};
    secured.tls_cert = folder_.Write("keys/cert.pem", identity.chain);
    secured.tls_key = folder_.Write("keys/key.pem", identity.key);
    secured.auth_token_file = folder_.Write("keys/tokens", "alice secret\n");
    secured_ = StartServer(secured, log_);
    folder_.Write("ca.pem", authority_.pem());
    folder_.Write("token", "secret\n");
    WriteFiles();
  }
  ~HelpExamplesTest() override {
    server_->Hurry();
    secured_->Hurry();
  }

  void WriteTensorFile(const std::string& name, const TensorMap& tensors) {
    ASSERT_TRUE(WriteTensors(folder_.File(name), tensors).ok()) << name;
  }
  void WriteOne(const std::string& name, const HostTensor& tensor) {
    TensorMap one;
    one.emplace("", HostTensor::Copy(tensor.view()));
    WriteTensorFile(name, one);
  }
  void WriteFiles();

  // A line of the shell in the folder, with the program by its name.
  ProgramResult Shell(const std::string& line) const {
    const std::string script = absl::StrCat(
        "cd '", folder_.path(), "' && PATH='",
        fs::path(ATTN_PROGRAM).parent_path().string(),
        "':\"$PATH\" && export ATTN_ADDRESS=", server_->grpc_addresses()[0],
        "\n", line, "\n");
    return RunProgram({"/bin/bash", "-c", script});
  }

  // What an example needs that a test has differently: a port that is free,
  // and no more load than shows that it works.
  std::string Adapted(const std::string& example) const {
    const std::string& address = secured_->grpc_addresses()[0];
    std::string line = absl::StrReplaceAll(
        example,
        {{"localhost:8443", "localhost" + address.substr(address.rfind(':'))}});
    if (!absl::StartsWith(line, "attn load") ||
        absl::StrContains(line, "--merge")) {
      return line;
    }
    line =
        std::regex_replace(line, std::regex(" --(duration|warmup) [^ ]+"), "");
    return line + " --duration 0.2s --warmup 0s";
  }

  ProgramResult RunExample(const std::string& example) const {
    // What an example before it may have taken away or made.
    Shell("attn layer put bahdanau weights.safetensors");
    if (!absl::StartsWith(example, "attn session")) {
      return Shell(Adapted(example));
    }
    const ProgramResult opened =
        Shell("attn session open --q-heads 4 --q-dim 16 --quiet");
    EXPECT_EQ(opened.exit_code, 0) << opened.err;
    return Shell(absl::StrCat("export ATTN_SESSION=", opened.out, example));
  }

  ScratchFolder folder_;
  const TestAuthority authority_;
  const LineLog log_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Server> secured_;
};

void HelpExamplesTest::WriteFiles() {
  const fs::path source = ATTN_SOURCE_DIR;
  for (const char* name : {"example.npz", "tokens.json"}) {
    fs::copy_file(source / "deploy/example" / name, folder_.File(name));
  }
  for (const char* family : {"sdpa", "alibi", "mask_causal"}) {
    fs::create_directories(folder_.File("cases"));
    fs::copy(source / "tests/conformance/cases" / family,
             folder_.File(absl::StrCat("cases/", family)),
             fs::copy_options::recursive);
  }
  const fs::path profiles = source / "client/load/profiles";
  if (fs::exists(profiles)) {
    fs::create_directories(folder_.File("client/load"));
    fs::copy(profiles, folder_.File("client/load/profiles"),
             fs::copy_options::recursive);
  }
  auto example = ReadTensors(folder_.File("example.npz"));
  ASSERT_TRUE(example.ok()) << example.status();
  TensorMap qkv;
  for (const char* name : {"q", "k", "v"}) {
    WriteOne(absl::StrCat(name, ".npy"), example->at(name));
    qkv.emplace(name, std::move(example->at(name)));
  }
  WriteTensorFile("qkv.npz", qkv);
  WriteTensorFile("old.npz", qkv);
  WriteTensorFile("model.safetensors", qkv);
  const int64_t heads = qkv.at("q").shape()[1];
  const int64_t tokens = qkv.at("q").shape()[2];
  WriteOne("d_output.npy", Ramp({1, heads, tokens, qkv.at("v").shape()[3]}));
  WriteOne("d_lse.npy", Ramp({1, heads, tokens}));
  WriteOne("slopes.npy", Ramp({heads}));
  WriteOne("w_q.npy", Ramp({8, 4}));
  WriteOne("w_k.npy", Ramp({8, 4}));
  TensorMap weights;
  weights.emplace("w_q", Ramp({8, 4}));
  WriteTensorFile("weights.safetensors", weights);
  TensorMap lengthy;
  for (const char* name : {"q", "k", "v"}) {
    lengthy.emplace(name, Ramp({1, 1, kLongTokens, 2}));
  }
  WriteTensorFile("long.npz", lengthy);
  folder_.Write("spec.json", R"({"softcap": 30})");
  std::string lines;
  for (int64_t i = 0; i < tokens; ++i) absl::StrAppend(&lines, "t", i, "\n");
  folder_.Write("tokens.txt", lines);
  const ProgramResult histogram =
      Shell(Adapted("attn load --closed 1 --histogram-out b.json"));
  EXPECT_EQ(histogram.exit_code, 0) << histogram.err;
}

// A rate that a busy machine does not reach is no fault of an example.
bool Worked(const std::string& example, int exit_code) {
  return exit_code == 0 ||
         (exit_code == 1 && absl::StartsWith(example, "attn load"));
}

TEST_F(HelpExamplesTest, EveryExampleOfEveryCommandWorks) {
  std::vector<CommandPath> commands = EveryCommand();
  ASSERT_GT(commands.size(), 8U);
  commands.push_back({});
  commands.push_back({"layer"});
  commands.push_back({"session"});
  for (const CommandPath& command : commands) {
    const std::vector<std::string> examples = ListedExamples(HelpOf(command));
    EXPECT_FALSE(examples.empty()) << absl::StrJoin(command, " ");
    for (const std::string& example : examples) {
      const ProgramResult result = RunExample(example);
      EXPECT_TRUE(Worked(example, result.exit_code))
          << example << "\nexit code " << result.exit_code << "\n"
          << result.err << result.out;
      // A load that this machine does not keep up with is said to be one.
      if (result.exit_code == 0) {
        EXPECT_EQ(result.err, "") << example;
      }
    }
  }
}

// One document, whatever the command: parse() throws for anything beside it.
TEST_F(HelpExamplesTest, EveryCommandPrintsOneJsonDocument) {
  for (const CommandPath& command : EveryCommand()) {
    if (command == CommandPath{"completion"}) continue;
    const std::vector<std::string> examples = ListedExamples(HelpOf(command));
    ASSERT_FALSE(examples.empty()) << absl::StrJoin(command, " ");
    std::string example = examples.front();
    if (!absl::StrContains(example, "--json")) example += " --json";
    // "convert" made it for the test before.
    const ProgramResult result = RunExample(example);
    EXPECT_TRUE(Worked(example, result.exit_code)) << example << result.err;
    EXPECT_TRUE(nlohmann::json::accept(result.out)) << example << "\n"
                                                    << result.out;
  }
}

TEST_F(HelpExamplesTest, EveryHelpBeginsWithASentenceAndGroupsItsOptions) {
  for (const CommandPath& command : EveryCommand()) {
    const std::string help = HelpOf(command);
    const std::string first = help.substr(0, help.find('\n'));
    EXPECT_GT(std::count(first.begin(), first.end(), ' '), 1) << help;
    EXPECT_THAT(help, HasSubstr(absl::StrCat("Usage: attn ",
                                             absl::StrJoin(command, " "))));
    EXPECT_THAT(help, HasSubstr("Options of every command"));
    for (const std::string& line :
         std::vector<std::string>(absl::StrSplit(help, '\n'))) {
      EXPECT_LE(line.size(), 110U) << line;
    }
  }
}

TEST_F(HelpExamplesTest, TheHelpSaysEveryExitCode) {
  const std::string help = HelpOf({});
  for (const char* code :
       {"\n  0  ", "\n  1  ", "\n  2  ", "\n  3  ", "\n  4  "}) {
    EXPECT_THAT(help, HasSubstr(code));
  }
  EXPECT_THAT(
      ListedCommands(help),
      IsSupersetOf({"attend", "backward", "inspect", "plan", "layer", "session",
                    "check", "info", "health", "load", "completion"}));
}

}  // namespace
}  // namespace attn
