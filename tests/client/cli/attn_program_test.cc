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
  std::string UniformInput(const ScratchFolder& folder,
                           int64_t queries = 3) const {
    TensorMap tensors;
    tensors.emplace("q", HostTensor(DType::kF32, {1, 1, queries, 2}));
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

TEST_F(AttnProgramTest, AnUnknownInstructionSetIsAUsageError) {
  const ProgramResult result = Attn({"--max-isa", "avx9", "health"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--max-isa"));
}

TEST_F(AttnProgramTest, TheInstructionSetOfTheEnvironmentIsTaken) {
  const ProgramResult result =
      RunProgram({ATTN_PROGRAM, "--address", address(), "load", "--shape",
                  "1,2,2,8,8,16", "--verify-every", "1", "--closed", "1",
                  "--duration", "0.1s", "--warmup", "0s"},
                 {"ATTN_MAX_ISA=sse4"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(AttnProgramTest, CalibrationComparesTheChoiceWithEveryKernel) {
  const ProgramResult result = RunProgram(
      {ATTN_PROGRAM, "--json", "info", "--calibrate", "--budget", "1ms"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  EXPECT_NE(report["cpu_class"], "");
  ASSERT_GT(report["calls"].size(), 8U);
  for (const auto& call : report["calls"]) {
    const auto& times = call["times_ms"];
    ASSERT_TRUE(times.contains(call["chosen"])) << call;
    // Nothing is faster than the fastest, and the loss is over it.
    const double fastest = times[call["fastest"]];
    for (const double time : times) EXPECT_GE(time, fastest) << call;
    EXPECT_DOUBLE_EQ(call["loss"],
                     times[call["chosen"]].get<double>() / fastest)
        << call;
  }
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

// With q = 0 the logits are (k - q) ln 2, so that the weights of a row are in
// the ratio 1 : 2 : 4, and v is 0, 1, 2.
TEST_F(AttnProgramTest, AttendTakesAProgramAndItsTable) {
  const ScratchFolder folder;
  const std::string out = folder.File("out.npy");
  const std::string table = folder.Write(
      "table.json", R"({"shape": [1], "data": [0.6931471805599453]})");
  const ProgramResult result =
      Attn({"attend", "--input", UniformInput(folder), "--score-program",
            "score + table[h] * (k - q)", "--program-table", "table=" + table,
            "--out", out});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto written = ReadTensor(out);
  ASSERT_TRUE(written.ok()) << written.status();
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(written->At(i), 10.0 / 7, 1e-5);
  }
}

// Two sequences: one row over keys 0 and 1, two rows over key 2.
TEST_F(AttnProgramTest, AttendTakesRaggedTensors) {
  const ScratchFolder folder;
  TensorMap tensors;
  for (const char* name : {"q", "k", "v"}) {
    tensors.emplace(name, HostTensor(DType::kF32, {3, 1, 1}));
  }
  for (int64_t i = 0; i < 3; ++i) {
    tensors.at("v").Set(i, static_cast<double>(i));
  }
  const std::string in = folder.File("in.npz");
  ASSERT_TRUE(WriteTensors(in, tensors).ok());
  const std::string out = folder.File("out.npy");
  const std::vector<std::string> offsets = {"--q-offsets", "0,1,3",
                                            "--kv-offsets", "0,2,3"};
  std::vector<std::string> attend = {"attend", "--input", in, "--out", out};
  attend.insert(attend.end(), offsets.begin(), offsets.end());
  const ProgramResult result = Attn(attend);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto written = ReadTensor(out);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->shape(), (Shape{3, 1, 1}));
  EXPECT_NEAR(written->At(0), 0.5, 1e-6);
  EXPECT_NEAR(written->At(1), 2, 1e-6);
  EXPECT_NEAR(written->At(2), 2, 1e-6);
  std::vector<std::string> plan = {"plan", "--input", in};
  plan.insert(plan.end(), offsets.begin(), offsets.end());
  EXPECT_THAT(Attn(plan).out, HasSubstr("offsets"));
}

// Each weight is 1/3; the first query's output counts, so d_v is 1/3 at each.
TEST_F(AttnProgramTest, BackwardWritesTheGradientsAndSummarisesThem) {
  const ScratchFolder folder;
  TensorMap cotangent;
  cotangent.emplace("", HostTensor(DType::kF32, {1, 1, 3, 1}));
  cotangent.at("").Set(0, 1);
  const std::string d_output = folder.File("d_output.npy");
  ASSERT_TRUE(WriteTensors(d_output, cotangent).ok());
  const std::string out = folder.File("gradients.npz");
  const std::string input = UniformInput(folder);
  const ProgramResult result = Attn(
      {"backward", "--input", input, "--d-output", d_output, "--out", out});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("d_v  F32 [1, 1, 3, 1]  mean 0.333"));
  EXPECT_THAT(result.out, HasSubstr("d_scale"));
  const auto written = ReadTensors(out);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_NEAR(written->at("d_v").At(2), 1.0 / 3, 1e-6);
  EXPECT_EQ(written->at("d_q").At(0), 0);
  EXPECT_TRUE(written->contains("d_k"));

  const auto document =
      nlohmann::json::parse(Attn({"backward", "--input", input, "--d-output",
                                  d_output, "--want", "d_v", "--json"})
                                .out);
  EXPECT_EQ(document["gradients"].size(), 1U);
  EXPECT_NEAR(document["gradients"]["d_v"]["max"], 1.0 / 3, 1e-6);
}

TEST_F(AttnProgramTest, BackwardWithoutACotangentExitsWithTwo) {
  const ScratchFolder folder;
  const std::string input = UniformInput(folder);
  const ProgramResult none = Attn({"backward", "--input", input});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("--d-output"));
  const ProgramResult bad =
      Attn({"backward", "--input", input, "--want", "d_x"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("d_input_N"));
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

TEST_F(AttnProgramTest, AttendShowsTheHealthOfHeadsAndWarns) {
  const ScratchFolder folder;
  const ProgramResult result =
      Attn({"attend", "--input", UniformInput(folder, /*queries=*/8), "--want",
            "output,effective_keys,logit_std"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // q = 0 makes every logit 0.
  EXPECT_THAT(result.out, HasSubstr("constant"));
  EXPECT_THAT(result.out, HasSubstr("batch 0 head 0 is dead: every visible "
                                    "logit is 0 over 8 rows\n"));
  EXPECT_THAT(result.out, HasSubstr("warning: 1 dead head of 1"));
  EXPECT_THAT(result.out, HasSubstr("effective_keys  F32 [1, 1, 8]  mean 3"));
  EXPECT_THAT(result.out, HasSubstr("logit_std  F32 [1, 1, 8]  mean 0"));
}

TEST_F(AttnProgramTest, InspectShowsHeadsTheSweepAndAHeatMap) {
  const ScratchFolder folder;
  const std::string out = folder.File("views.npz");
  const ProgramResult result =
      Attn({"inspect", "--input", UniformInput(folder), "--causal", "--view",
            "weights,logits", "--sweep", "0.5,2", "--out", out});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("weights  F32 [1, 1, 3, 3]"));
  EXPECT_THAT(result.out, HasSubstr("temperature"));
  EXPECT_THAT(result.out, HasSubstr("batch 0 head 0: queries down"));
  // Masked cells are drawn as masked in every view.
  EXPECT_THAT(result.out, HasSubstr("█··"));
  const auto written = ReadTensors(out);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->size(), 2);
  EXPECT_NEAR(written->at("weights").At(8), 1.0 / 3, 1e-6);
}

TEST_F(AttnProgramTest, InspectCutsPoolsAndWeighsGradients) {
  const ScratchFolder folder;
  const std::string out = folder.File("tiles.npy");
  TensorMap cotangent;
  cotangent.emplace("", HostTensor(DType::kF32, {1, 1, 8, 1}));
  for (int64_t i = 0; i < 8; ++i) cotangent.at("").Set(i, 3);
  const std::string d_output = folder.File("d.npy");
  ASSERT_TRUE(WriteTensors(d_output, cotangent).ok());
  const ProgramResult result =
      Attn({"inspect", "--json", "--input", UniformInput(folder, /*queries=*/8),
            "--view", "gradient_weight", "--d-output", d_output, "--part",
            ":,:,6:", "--tile", "2,3", "--pool", "sum", "--out", out});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // Each of two rows: 1/3 * 3 * (0 + 1 + 2).
  const auto written = ReadTensor(out);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->shape(), Shape({1, 1, 1, 1}));
  EXPECT_NEAR(written->At(0), 6, 1e-5);
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["heads"].size(), 1);
  EXPECT_EQ(document["report"]["warnings"][0]["kind"],
            "WARNING_KIND_DEAD_HEAD");
}

TEST_F(AttnProgramTest, InspectSaysWhichFlagIsWrong) {
  const ScratchFolder folder;
  const std::string input = UniformInput(folder);
  const ProgramResult view =
      Attn({"inspect", "--input", input, "--view", "nonsense"});
  EXPECT_EQ(view.exit_code, 2);
  EXPECT_THAT(view.err, HasSubstr("contribution"));
  const ProgramResult window =
      Attn({"inspect", "--input", input, "--part", "0,0,0:9"});
  EXPECT_EQ(window.exit_code, 3);
  EXPECT_THAT(window.err, HasSubstr("window.query.end"));
  const ProgramResult cotangent =
      Attn({"inspect", "--input", input, "--view", "gradient_weight"});
  EXPECT_EQ(cotangent.exit_code, 2);
  EXPECT_THAT(cotangent.err, HasSubstr("--d-output"));
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
       {"attend", "inspect", "plan", "info", "health", "check", "load"}) {
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
