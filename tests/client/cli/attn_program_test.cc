// The program as a user runs it, against a server in this process.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/app/server.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class AttnProgramTest : public ::testing::Test {
 protected:
  AttnProgramTest() : log_(LogFormat::kText, [](const std::string&) {}) {
    ServerOptions options;
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 2;
    auto server = Server::Start(options, log_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~AttnProgramTest() override { server_->Hurry(); }

  const std::string& address() const { return server_->grpc_addresses()[0]; }

  // attn --address ADDRESS arguments...
  ProgramResult Attn(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {ATTN_PROGRAM, "--address", address()});
    return RunProgram(arguments);
  }

  // q = 0 and v = 0, 1, 2: uniform weights, output 1.
  std::string UniformInput(const ScratchFolder& folder) const {
    TensorMap tensors;
    tensors.emplace("q", HostTensor(DType::kF32, {1, 1, 3, 2}));
    tensors.emplace("k", HostTensor(DType::kF32, {1, 1, 3, 2}));
    tensors.emplace("v", HostTensor(DType::kF32, {1, 1, 3, 1}));
    for (int64_t i = 0; i < 3; ++i) {
      tensors.at("v").Set(i, static_cast<double>(i));
    }
    std::string path = folder.File("in.npz");
    EXPECT_TRUE(WriteTensors(path, tensors).ok());
    return path;
  }

  LineLog log_;
  std::unique_ptr<Server> server_;
};

TEST_F(AttnProgramTest, HealthSaysServing) {
  const ProgramResult result = Attn({"health"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, address() + ": SERVING\n");
}

TEST_F(AttnProgramTest, OptionsMayFollowTheCommand) {
  const ProgramResult result =
      RunProgram({ATTN_PROGRAM, "health", "--json", "--address", address()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["serving"], true);
}

TEST_F(AttnProgramTest, TheEnvironmentNamesTheServer) {
  const ProgramResult result =
      RunProgram({ATTN_PROGRAM, "health"}, {"ATTN_ADDRESS=" + address()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(AttnProgramTest, InfoListsStagesAndKernels) {
  const ProgramResult text = Attn({"info"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("instruction set"));
  EXPECT_THAT(text.out, HasSubstr("reference"));
  const auto info = nlohmann::json::parse(Attn({"info", "--json"}).out);
  EXPECT_EQ(info["kernels"].back(), "reference");
  EXPECT_GT(info["limits"]["max_message_bytes"], 0);
}

TEST_F(AttnProgramTest, PlanNamesEveryKernelsReason) {
  const ProgramResult text =
      Attn({"plan", "--shape", "1,8,4,32,32,16", "--causal"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("->"));
  const auto plan = nlohmann::json::parse(
      Attn({"--json", "plan", "--shape", "1,8,4,32,32,16", "--scale", "0.5"})
          .out);
  EXPECT_EQ(plan["effective_scale"], 0.5);
  EXPECT_EQ(plan["verdicts"].back()["kernel"], "reference");
}

TEST_F(AttnProgramTest, AttendWritesTheOutputAndSummarisesIt) {
  const ScratchFolder folder;
  const std::string out = folder.File("out.npz");
  const ProgramResult result =
      Attn({"attend", "--input", UniformInput(folder), "--want",
            "output,weights,visible_keys", "--out", out});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("output  F32 [1, 1, 3, 1]  mean 1"));
  const auto written = ReadTensors(out);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_NEAR(written->at("output").At(0), 1, 1e-6);
  EXPECT_NEAR(written->at("weights").At(8), 1.0 / 3, 1e-6);
  EXPECT_EQ(written->at("visible_keys").At(2), 3);
}

TEST_F(AttnProgramTest, AttendDrawsMaskedCellsAsMasked) {
  const ScratchFolder folder;
  const std::string tokens = folder.Write("t.json", R"([" a", "b", "c"])");
  const ProgramResult result =
      Attn({"attend", "--input", UniformInput(folder), "--causal", "--heatmap",
            "--tokens", tokens});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("_a 0   █··            █··\n"));
  EXPECT_THAT(result.out, HasSubstr(" c 2   ███            ▁▁▁\n"));
}

TEST_F(AttnProgramTest, AttendSpeaksJson) {
  const ScratchFolder folder;
  const ProgramResult result =
      Attn({"attend", "--json", "--input", UniformInput(folder)});
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["outputs"]["output"]["shape"],
            (std::vector<int64_t>{1, 1, 3, 1}));
  EXPECT_NEAR(document["heads"][0]["mean_entropy"].get<double>(),
              1.0986122886681098, 1e-5);
}

TEST_F(AttnProgramTest, TheShippedExampleMatches) {
  const std::string example = ATTN_SOURCE_DIR "/deploy/example/";
  for (const char* dtype : {"f32", "f64", "bf16", "f16"}) {
    const ProgramResult result =
        Attn({"attend", "--input", example + "example.npz", "--causal",
              "--compare", "--tokens", example + "tokens.json", "--heatmap",
              "--head", "1", "--dtype", dtype});
    EXPECT_EQ(result.exit_code, 0) << dtype << result.err << result.out;
    EXPECT_THAT(result.out, EndsWith("\nmatches\n"));
    EXPECT_THAT(result.out, HasSubstr("_He"));
  }
}

TEST_F(AttnProgramTest, ADifferenceExitsWithOne) {
  const ProgramResult result =
      Attn({"attend", "--input", ATTN_SOURCE_DIR "/deploy/example/example.npz",
            "--causal", "--compare", "--scale", "0.5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, EndsWith("\ndoes not match\n"));
}

TEST_F(AttnProgramTest, WhatTheServerRefusesExitsWithThree) {
  const ScratchFolder folder;
  const ProgramResult result =
      Attn({"attend", "--input", UniformInput(folder), "--temperature", "-1"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(result.err, HasSubstr("spec.temperatures[0]"));
}

TEST_F(AttnProgramTest, BadCommandLinesAndFilesExitWithTwo) {
  const ScratchFolder folder;
  const std::string broken = folder.Write("broken.npy", "\x93NUMPY");
  const std::vector<std::vector<std::string>> lines = {
      {},
      {"frobnicate"},
      {"attend", "--nonsense"},
      {"attend"},
      {"attend", "--q", broken, "--k", broken, "--v", broken},
      {"attend", "--input", "no/such.npz"},
      {"plan", "--shape", "1,2,3"},
      {"check", "no/such/folder"},
      {"--timeout", "-3", "health"},
      {"--address", "nowhere", "health"},
  };
  for (const std::vector<std::string>& line : lines) {
    std::vector<std::string> arguments = {ATTN_PROGRAM};
    arguments.insert(arguments.end(), line.begin(), line.end());
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 2) << testing::PrintToString(line);
    EXPECT_NE(result.err, "") << testing::PrintToString(line);
  }
}

TEST_F(AttnProgramTest, AServerThatIsNotThereExitsWithFour) {
  const std::string gone = address();
  server_->Hurry();
  server_->Stop();
  for (const char* command : {"health", "info"}) {
    const ProgramResult result =
        RunProgram({ATTN_PROGRAM, "--address", gone, command});
    EXPECT_EQ(result.exit_code, 4) << command;
    EXPECT_THAT(result.err, StartsWith("attn: no server answers at " + gone));
  }
}

TEST_F(AttnProgramTest, HelpComesWithExamples) {
  for (const char* command :
       {"attend", "plan", "info", "health", "check", "load"}) {
    const ProgramResult result = RunProgram({ATTN_PROGRAM, command, "--help"});
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Examples:")) << command;
  }
}

TEST_F(AttnProgramTest, TheQuickStartRuns) {
  const ProgramResult result = RunProgram({QUICK_START_PROGRAM, address()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // The first token sees itself alone.
  EXPECT_THAT(result.out, StartsWith("1 2 "));
}

}  // namespace
}  // namespace attn
