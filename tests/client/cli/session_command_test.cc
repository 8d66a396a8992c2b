// `attn session` as a user runs it, against a service in this process.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/strip.h"
#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/cli/fake_sessions.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// 0, 1, 2 ... from `first` on, which F32 holds exactly.
HostTensor CountingTensor(const Shape& shape, double first) {
  HostTensor tensor(DType::kF32, shape);
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    tensor.Set(i, first + static_cast<double>(i));
  }
  return tensor;
}

std::vector<int64_t> ShapeOfTensor(const v1::Tensor& tensor) {
  return {tensor.shape().begin(), tensor.shape().end()};
}

class SessionCommandTest : public ::testing::Test {
 protected:
  // attn --address ADDRESS session arguments..., with ATTN_SESSION if one is
  // open.
  ProgramResult Session(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {ATTN_PROGRAM, "--address",
                                         service_.address(), "session"});
    std::vector<std::string> environment;
    if (!id_.empty()) environment.push_back("ATTN_SESSION=" + id_);
    return RunProgram(arguments, environment);
  }
  // Opens one of 4 heads of q and 2 of k and v, of 8, 8 and 3 elements.
  void Open(const std::string& layers = "1") {
    const ProgramResult opened = Session(
        {"open", "--q-heads", "4", "--kv-heads", "2", "--q-dim", "8", "--k-dim",
         "8", "--v-dim", "3", "--layers", layers, "--quiet"});
    ASSERT_EQ(opened.exit_code, 0) << opened.err;
    id_ = std::string(absl::StripSuffix(opened.out, "\n"));
    ASSERT_EQ(id_.size(), 32U) << opened.out;
  }
  nlohmann::json Json(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const ProgramResult result = Session(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, /*exceptions=*/false);
  }
  std::string FileOf(const std::string& name, const HostTensor& tensor) const {
    TensorMap tensors;
    tensors.emplace("", HostTensor::Copy(tensor.view()));
    std::string path = folder_.File(name);
    EXPECT_TRUE(WriteTensors(path, tensors).ok());
    return path;
  }

  FakeSessions service_;
  ScratchFolder folder_;
  std::string id_;
};

TEST_F(SessionCommandTest, OpenAsksForWhatTheFlagsSay) {
  const std::string bias = FileOf("bias.npy", CountingTensor({4, 1, 1}, 5));
  const ProgramResult opened = Session({"open",   "--q-heads",
                                        "4",      "--kv-heads",
                                        "2",      "--q-dim",
                                        "8",      "--k-dim",
                                        "6",      "--v-dim",
                                        "3",      "--layers",
                                        "2",      "--kv-dtype",
                                        "INT8",   "--max-tokens",
                                        "4096",   "--idle-timeout",
                                        "90s",    "--causal=bottom_right",
                                        "--bias", bias});
  ASSERT_EQ(opened.exit_code, 0) << opened.err;
  EXPECT_THAT(opened.out, HasSubstr("00000000000000000000000000000001"));
  EXPECT_THAT(opened.out, HasSubstr("owner.example:8001"));
  const v1::OpenSessionRequest request = service_.opened();
  EXPECT_EQ(request.q_heads(), 4);
  EXPECT_EQ(request.kv_heads(), 2);
  EXPECT_EQ(request.q_dim(), 8);
  EXPECT_EQ(request.k_dim(), 6);
  EXPECT_EQ(request.v_dim(), 3);
  EXPECT_EQ(request.layers(), 2);
  EXPECT_EQ(request.kv_dtype(), v1::DATA_TYPE_I8);
  EXPECT_EQ(request.max_tokens(), 4096);
  EXPECT_EQ(request.idle_timeout_ms(), 90000);
  EXPECT_EQ(request.spec().masks(0).causal().alignment(),
            v1::ALIGNMENT_BOTTOM_RIGHT);
  ASSERT_EQ(request.inputs_size(), 1);
  EXPECT_THAT(ShapeOfTensor(request.inputs(0)), ElementsAre(4, 1, 1));
  const nlohmann::json document =
      Json({"open", "--q-heads", "1", "--q-dim", "2"});
  EXPECT_EQ(document["session_id"], "00000000000000000000000000000002");
  EXPECT_EQ(document["epoch"], 1);
}

// The position and the number of the second step are the server's to say.
TEST_F(SessionCommandTest, StepSendsFilesAndWritesWhatComes) {
  Open();
  const HostTensor q = CountingTensor({1, 4, 3, 8}, 0);
  const std::vector<std::string> step = {
      "step",
      "--q",
      FileOf("q.npy", q),
      "--k",
      FileOf("k.npy", CountingTensor({1, 2, 3, 8}, 100)),
      "--v",
      FileOf("v.npy", CountingTensor({1, 2, 3, 3}, 200)),
      "--out",
      folder_.File("out.npy")};
  const ProgramResult first = Session(step);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, StartsWith(id_ + ": made step 0 of epoch 1"));
  EXPECT_THAT(first.out, HasSubstr("next step 1, 3 tokens"));
  const auto output = ReadTensor(folder_.File("out.npy"));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->shape(), q.shape());
  EXPECT_EQ(output->values<float>(), q.values<float>());

  const nlohmann::json second = Json(step);
  EXPECT_EQ(second["step"], 1);
  EXPECT_EQ(second["next_step"], 2);
  EXPECT_EQ(second["length"], 6);
  EXPECT_EQ(second["session_id"], id_);
  EXPECT_EQ(second["report"]["kernel"], "fake");
  EXPECT_EQ(second["output"][0]["layer"], 0);
  const v1::StepRequest sent = service_.stepped();
  EXPECT_EQ(sent.position(), 3);
  EXPECT_THAT(ShapeOfTensor(sent.v(0)), ElementsAre(1, 2, 3, 3));
  float last = 0;
  std::memcpy(&last, sent.v(0).data().data() + sent.v(0).data().size() - 4, 4);
  EXPECT_EQ(last, 217);
}

TEST_F(SessionCommandTest, ManyLayersComeFromOneFileByTheirNumbers) {
  Open("3");
  TensorMap tensors;
  for (const int layer : {2, 0}) {
    const std::string ending = "." + std::to_string(layer);
    tensors.emplace("q" + ending, CountingTensor({1, 4, 1, 8}, layer));
    tensors.emplace("k" + ending, CountingTensor({1, 2, 1, 8}, layer));
    tensors.emplace("v" + ending, CountingTensor({1, 2, 1, 3}, layer));
  }
  const std::string input = folder_.File("step.safetensors");
  const std::string out = folder_.File("out.npz");
  ASSERT_TRUE(WriteTensors(input, tensors).ok());
  const ProgramResult result =
      Session({"step", "--layers", "2,0", "--input", input, "--out", out});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(service_.stepped().layers(), ElementsAre(2, 0));
  const auto outputs = ReadTensors(out);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->at("output.2").At(0), 2);
  EXPECT_EQ(outputs->at("output.0").At(0), 0);
  EXPECT_EQ(Json({"get"})["lengths"], nlohmann::json({1, 0, 1}));
}

TEST_F(SessionCommandTest, RandomTokensAreOfTheSessionsShape) {
  Open();
  const nlohmann::json made =
      Json({"step", "--random", "5", "--dtype", "bf16", "--seed", "3"});
  EXPECT_EQ(made["length"], 5);
  const v1::StepRequest sent = service_.stepped();
  EXPECT_THAT(ShapeOfTensor(sent.q(0)), ElementsAre(1, 4, 5, 8));
  EXPECT_THAT(ShapeOfTensor(sent.k(0)), ElementsAre(1, 2, 5, 8));
  EXPECT_THAT(ShapeOfTensor(sent.v(0)), ElementsAre(1, 2, 5, 3));
  EXPECT_EQ(sent.q(0).dtype(), v1::DATA_TYPE_BF16);
}

TEST_F(SessionCommandTest, WhatIsSaidIsNotAsked) {
  Open();
  const std::string q = FileOf("q.npy", CountingTensor({1, 4, 1, 8}, 0));
  const std::string k = FileOf("k.npy", CountingTensor({1, 2, 1, 8}, 0));
  std::vector<std::string> step = {
      "step", "--q",    q,   "--k",        k,  "--v", k, "--epoch",
      "1",    "--step", "0", "--position", "0"};
  EXPECT_EQ(Session(step).exit_code, 0);
  EXPECT_EQ(service_.gets(), 0);
  // The service says that it was made.
  const ProgramResult again = Session(step);
  EXPECT_EQ(again.exit_code, 3);
  EXPECT_THAT(again.err, HasSubstr("FAILED_PRECONDITION"));
  EXPECT_EQ(service_.gets(), 0);
}

TEST_F(SessionCommandTest, ForksRollsBackListsAndCloses) {
  Open("2");
  ASSERT_EQ(Session({"step", "--random", "4", "--layers", "0,1"}).exit_code, 0);
  const std::string first = id_;
  const ProgramResult forked = Session({"fork", "--position", "3", "--quiet"});
  ASSERT_EQ(forked.exit_code, 0) << forked.err;
  const auto fork = std::string(absl::StripSuffix(forked.out, "\n"));
  EXPECT_NE(fork, first);
  EXPECT_EQ(Json({"get", "--session", fork})["lengths"],
            nlohmann::json({3, 3}));

  const ProgramResult back = Session({"rollback", "--position", "1"});
  EXPECT_EQ(back.out, first + ": epoch 2, next step 1\n") << back.err;
  const ProgramResult old =
      Session({"rollback", "--position", "1", "--epoch", "1"});
  EXPECT_EQ(old.exit_code, 3);
  const nlohmann::json again = Json({"rollback", "--position", "0"});
  EXPECT_EQ(again["epoch"], 3);
  EXPECT_EQ(again["session_id"], first);

  const ProgramResult list = Session({"list"});
  EXPECT_THAT(list.out, HasSubstr(first));
  EXPECT_THAT(list.out, HasSubstr(fork));
  EXPECT_EQ(Json({"list"}).size(), 2U);
  const ProgramResult one = Session({"get"});
  EXPECT_THAT(one.out, HasSubstr("4/2"));
  EXPECT_THAT(one.out, HasSubstr("8, 8, 3"));

  EXPECT_EQ(Session({"close"}).out, first + ": closed\n");
  EXPECT_EQ(Session({"close"}).out, first + ": was not there\n");
  EXPECT_EQ(Json({"close", "--session", fork})["closed"], true);
  EXPECT_EQ(Json({"list"}), nlohmann::json::array());
  EXPECT_EQ(Session({"get"}).exit_code, 3);
}

TEST_F(SessionCommandTest, WhatCannotBeMeantIsSaidInOneLine) {
  const struct {
    std::vector<std::string> arguments;
    std::string words;
  } rows[] = {
      {{"step", "--random", "1"}, "--session"},
      {{"step", "--session", "x", "--random", "0"}, "--random"},
      {{"step", "--session", "x", "--random", "1", "--q", "q.npy"}, "--q"},
      {{"step", "--session", "x", "--seed", "1"}, "--random"},
      {{"step", "--session", "x"}, "--random N"},
      {{"step", "--session", "x", "--layers", "0,1", "--q", "q.npy"},
       "--input"},
      {{"step", "--session", "x", "--layers", "0,1", "--random", "1", "--out",
        folder_.File("out.npy")},
       "one tensor, not 2"},
      {{"open", "--q-heads", "1"}, "--q-dim"},
      {{"open", "--q-heads", "5000000000", "--q-dim", "1"}, "--q-heads"},
      {{"open", "--q-heads", "1", "--q-dim", "1", "--kv-dtype", "f64"}, "int8"},
      {{"open", "--q-heads", "1", "--q-dim", "1", "--idle-timeout", "0"},
       "--idle-timeout"},
      {{"rollback", "--session", "x"}, "--position"},
  };
  for (const auto& row : rows) {
    const ProgramResult result = Session(row.arguments);
    EXPECT_EQ(result.exit_code, 2) << row.words << result.err;
    EXPECT_THAT(result.err, StartsWith("attn: "));
    EXPECT_THAT(result.err, HasSubstr(row.words));
    EXPECT_EQ(result.out, "");
  }
  Open();
  const ProgramResult result =
      Session({"step", "--random", "1", "--layers", "4"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--layers: got 4"));
}

}  // namespace
}  // namespace attn
