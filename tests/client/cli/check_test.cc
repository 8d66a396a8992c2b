// `attn check` on cases that are written here, with answers by the formula.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/check/band.h"
#include "client/cli/check/case.h"
#include "client/cli/check/runner.h"
#include "client/cli/check/service.h"
#include "client/cli/check/tensor_ops.h"
#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string Entry(const std::string& name, const std::string& file,
                  const std::string& shape) {
  return absl::StrCat("\"", name, "\": {\"file\": \"", file,
                      "\", \"dtype\": \"float32\", \"shape\": ", shape, "}");
}

// A case of two queries and two keys with logits 0: weights 1/2 but for what
// is masked. `out` is what the case says that the output is.
std::string WriteCase(const ScratchFolder& folder, const std::string& path,
                      const std::string& params,
                      const std::vector<double>& out) {
  const std::string at = folder.File(path);
  const std::string text = absl::StrCat(
      R"({"schema": 1, "name": "c", "family": "f", "op": "attention",)",
      R"("params": )", params, R"(, "inputs": {)",
      Entry("q", "in_q.npy", "[1, 1, 2, 1]"), ",",
      Entry("k", "in_k.npy", "[1, 1, 2, 1]"), ",",
      Entry("v", "in_v.npy", "[1, 1, 2, 1]"), R"(}, "outputs": {)",
      Entry("out", "out_out.npy", "[1, 1, 2, 1]"),
      R"(}, "tolerance": {"float64": {"rtol": 1e-9, "atol": 1e-9},)",
      R"("float32": {"rtol": 1e-5, "atol": 1e-6}}})");
  folder.Write(path + "/case.json", text);
  const auto write = [&](const std::string& name, std::vector<double> values) {
    TensorMap tensors;
    tensors.emplace("", *HostTensor::From<double>({1, 1, 2, 1}, values));
    EXPECT_TRUE(WriteTensors(at + "/" + name, tensors).ok());
  };
  write("in_q.npy", {0, 0});
  write("in_k.npy", {1, 2});
  write("in_v.npy", {2, 4});
  write("out_out.npy", out);
  return at;
}

class CheckTest : public ::testing::Test {
 protected:
  CheckTest() : log_(LogFormat::kText, [](const std::string&) {}) {
    ServerOptions options;
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 1;
    auto server = Server::Start(options, log_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~CheckTest() override { server_->Hurry(); }

  CaseResult Check(const std::string& folder,
                   Precision precision = Precision::kF32) const {
    const Service service(
        *AttentionClient::Connect({.address = server_->grpc_addresses()[0]}),
        precision, "");
    const auto result = CheckCase(folder, service);
    EXPECT_TRUE(result.ok()) << result.status();
    return *result;
  }

  LineLog log_;
  std::unique_ptr<Server> server_;
};

TEST_F(CheckTest, ARightAnswerPassesInEveryPrecision) {
  const ScratchFolder folder;
  const std::string at = WriteCase(folder, "f/c", "{}", {3, 3});
  for (const Precision precision :
       {Precision::kF32, Precision::kF64, Precision::kBF16, Precision::kF16}) {
    const CaseResult result = Check(at, precision);
    EXPECT_EQ(result.verdict, Verdict::kPassed) << result.reason;
  }
}

TEST_F(CheckTest, AWrongAnswerFailsAndNamesTheWorstElement) {
  const ScratchFolder folder;
  const CaseResult result = Check(WriteCase(folder, "f/c", "{}", {3, 3.5}));
  EXPECT_EQ(result.verdict, Verdict::kFailed);
  EXPECT_THAT(result.reason, HasSubstr("out[0, 0, 1, 0]: got 3, want 3.5"));
  EXPECT_THAT(Describe(result), HasSubstr("FAIL f/c: out"));
}

TEST_F(CheckTest, MasksReachTheService) {
  const ScratchFolder folder;
  const CaseResult causal = Check(WriteCase(
      folder, "f/a", R"({"mask": {"kind": "causal", "align": "top_left"}})",
      {2, 3}));
  EXPECT_EQ(causal.verdict, Verdict::kPassed) << causal.reason;
  const CaseResult lengths =
      Check(WriteCase(folder, "f/b", R"({"kv_lens": [1]})", {2, 2}));
  EXPECT_EQ(lengths.verdict, Verdict::kPassed) << lengths.reason;
  const CaseResult parts = Check(WriteCase(
      folder, "f/d", R"({"mask": {"causal": "bottom_right", "kv_lens": [1]}})",
      {0, 2}));
  EXPECT_EQ(parts.verdict, Verdict::kPassed) << parts.reason;
}

// Two keys with logits 0 and what each stage makes of them.
TEST_F(CheckTest, NormalizersSparsityAndPatternsReachTheService) {
  const ScratchFolder folder;
  const std::vector<std::pair<std::string, std::vector<double>>> cases = {
      {R"({"normalizer": {"kind": "sigmoid"}})", {3, 3}},
      {R"({"normalizer": {"kind": "relu"}})", {0, 0}},
      {R"({"normalizer": {"kind": "softmax_n", "n": 2}})", {1.5, 1.5}},
      {R"({"normalizer": {"kind": "entmax", "alpha": 1.5}})", {3, 3}},
      {R"({"sparsity": {"kind": "topk", "k": 1}})", {2, 2}},
      {R"({"sparsity": {"kind": "threshold", "min_logit": 1}})", {0, 0}},
      {R"({"mask": {"kind": "document", "offsets": [0, 1, 2]}})", {2, 4}},
      {R"({"mask": {"kind": "prefix_lm", "prefix": 1}})", {2, 3}},
      {R"({"mask": {"kind": "window", "left": 0, "right": 0,)"
       R"( "align": "top_left", "sink_tokens": 1}})",
       {2, 3}},
  };
  for (const auto& [params, out] : cases) {
    const CaseResult result = Check(WriteCase(folder, "f/c", params, out));
    EXPECT_EQ(result.verdict, Verdict::kPassed) << params << result.reason;
  }
}

TEST_F(CheckTest, WhatTheWireCannotSayIsSkippedWithItsReason) {
  const ScratchFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"normalizer": {"kind": "cubist"}})", "normalizer cubist"},
      {R"({"score": {"kind": "cubist"}})", "score cubist"},
      {R"({"sink": "cubist"})", "sink \"cubist\""},
      {R"({"mask": {"kind": "cubist"}})", "mask cubist"},
      {R"({"dropout": {"p": 0.5}})", "dropout without its keep mask"},
      {R"({"later": 1})", "parameter later"},
  };
  for (const auto& [params, reason] : cases) {
    const CaseResult result = Check(WriteCase(folder, "f/c", params, {3, 3}));
    EXPECT_EQ(result.verdict, Verdict::kSkipped) << params;
    EXPECT_EQ(result.reason, reason);
  }
}

TEST_F(CheckTest, ACaseThatCannotBeReadFails) {
  const ScratchFolder folder;
  const std::string at = WriteCase(folder, "f/c", "{}", {3, 3});
  folder.Write("f/c/in_q.npy", "no array");
  EXPECT_EQ(Check(at).verdict, Verdict::kFailed);
  EXPECT_THAT(Check(at).reason, HasSubstr("in_q.npy: not a .npy file"));
  folder.Write("f/c/case.json", "{");
  EXPECT_THAT(Check(at).reason, HasSubstr("case.json: not valid JSON"));
}

// The case of WriteCase() with the cotangent (2, 1) and its gradients. The
// weights are 1/2, so that d logits = ((-1, 1), (-1/2, 1/2)).
std::string WriteGradientCase(const ScratchFolder& folder,
                              const std::string& path,
                              const std::vector<double>& dq) {
  std::string at = WriteCase(folder, path, "{}", {3, 3});
  std::string inputs;
  for (const char* name : {"q", "k", "v", "dout"}) {
    absl::StrAppend(
        &inputs, inputs.empty() ? "" : ",",
        Entry(name, absl::StrCat("in_", name, ".npy"), "[1, 1, 2, 1]"));
  }
  std::string outputs;
  for (const char* name : {"out", "dq", "dk", "dv"}) {
    absl::StrAppend(
        &outputs, outputs.empty() ? "" : ",",
        Entry(name, absl::StrCat("out_", name, ".npy"), "[1, 1, 2, 1]"));
  }
  folder.Write(
      path + "/case.json",
      absl::StrCat(
          R"({"schema": 1, "name": "c", "family": "f", "op": "attention_vjp",)",
          R"("params": {}, "inputs": {)", inputs, R"(}, "outputs": {)", outputs,
          R"(}, "tolerance": {"float64": {"rtol": 1e-9, "atol": 1e-9},)",
          R"("float32": {"rtol": 1e-5, "atol": 1e-6}}})"));
  const auto write = [&](const std::string& name, std::vector<double> values) {
    TensorMap tensors;
    tensors.emplace("", *HostTensor::From<double>({1, 1, 2, 1}, values));
    EXPECT_TRUE(WriteTensors(at + "/" + name, tensors).ok());
  };
  write("in_dout.npy", {2, 1});
  write("out_dq.npy", dq);
  write("out_dk.npy", {0, 0});
  write("out_dv.npy", {1.5, 1.5});
  return at;
}

TEST_F(CheckTest, GradientsAreCompared) {
  const ScratchFolder folder;
  const CaseResult right =
      Check(WriteGradientCase(folder, "f/right", {1, 0.5}));
  EXPECT_EQ(right.verdict, Verdict::kPassed) << right.reason;
  const CaseResult wrong = Check(WriteGradientCase(folder, "f/wrong", {1, 1}));
  EXPECT_EQ(wrong.verdict, Verdict::kFailed);
  EXPECT_THAT(wrong.reason, HasSubstr("dq[0, 0, 1, 0]"));
}

TEST(ScoreTest, EndsWithTheCountsAloneOnALine) {
  CheckTally score;
  score.Add({.title = "a", .verdict = Verdict::kPassed, .reason = ""});
  score.Add({.title = "b", .verdict = Verdict::kSkipped, .reason = "dropout"});
  score.Add({.title = "c", .verdict = Verdict::kFailed, .reason = "out"});
  EXPECT_THAT(score.ToString(), HasSubstr("     1  dropout\n"));
  EXPECT_THAT(score.ToString(), EndsWith("\n1 passed, 1 failed, 1 skipped\n"));
  EXPECT_EQ(score.ToJson()["skips"]["dropout"], 1);
}

TEST(FindCasesTest, TakesARootAFamilyOrACase) {
  const ScratchFolder folder;
  const std::string a = WriteCase(folder, "f/a", "{}", {3, 3});
  const std::string b = WriteCase(folder, "g/b", "{}", {3, 3});
  EXPECT_THAT(*FindCases(folder.path(), {}), ElementsAre(a, b));
  EXPECT_THAT(*FindCases(folder.path(), {"g"}), ElementsAre(b));
  EXPECT_THAT(*FindCases(folder.File("f"), {}), ElementsAre(a));
  EXPECT_EQ(FindCases(a, {})->size(), 1U);
  EXPECT_TRUE(absl::IsNotFound(FindCases(folder.path(), {"no"}).status()));
}

ServiceCall CallOf(int64_t rows, int64_t keys) {
  ServiceCall call;
  call.q = HostTensor(DType::kF32, {1, 1, rows, 1});
  call.k = HostTensor(DType::kF32, {1, 1, keys, 1});
  return call;
}

TEST(BandTest, UsesTheWiresAlignmentsWhereTheyFit) {
  ServiceCall call = CallOf(2, 5);
  AddBand({.left = std::nullopt, .right = 0, .offsets = {3}}, call);
  AddBand({.left = 1, .right = 2, .offsets = {0}}, call);
  EXPECT_THAT(call.spec.masks,
              ElementsAre(MaskSpec(CausalMask{Alignment::kBottomRight}),
                          MaskSpec(WindowMask{1, 2, Alignment::kTopLeft})));
}

TEST(BandTest, FallsBackToADenseMask) {
  ServiceCall call = CallOf(2, 4);
  AddBand({.left = 0, .right = 0, .offsets = {1}}, call);
  ASSERT_EQ(call.inputs.size(), 1U);
  const HostTensor& mask = call.inputs[0];
  std::vector<int> keep;
  for (int64_t i = 0; i < 8; ++i) keep.push_back(mask.At(i) != 0);
  EXPECT_THAT(keep, ElementsAre(0, 1, 0, 0, 0, 0, 1, 0));
}

TEST(TensorOpsTest, SlicesJoinsAndSwaps) {
  const auto tensor = HostTensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const HostTensor middle = Slice(*tensor, 1, 1, 2);
  EXPECT_THAT(middle.values<float>(), ElementsAre(2, 5));
  EXPECT_THAT(Concat(middle, *tensor, 1)->values<float>(),
              ElementsAre(2, 1, 2, 3, 5, 4, 5, 6));
  EXPECT_FALSE(Concat(*tensor, middle, 0).ok());
  // [1, 2, 2 heads of 1]
  const auto packed = HostTensor::From<float>({1, 2, 2}, {1, 2, 3, 4});
  const auto split = SplitHeads(*packed, 2);
  EXPECT_THAT(split->values<float>(), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(JoinHeads(*split).values<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_FALSE(SplitHeads(*packed, 3).ok());
}

}  // namespace
}  // namespace attn
